//! Calls over real connections, to a server that misbehaves on demand.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

mod faults;
mod limits;
mod server;
mod servers;
