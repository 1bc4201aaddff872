//! The only code that runs untrusted code: sandbox, harness, clocks, baselines, verdicts.
//!
//! A [`Session`] holds one problem: a zygote (Python with torch imported), a referee that knows the problem and
//! never sees a candidate, and baselines. [`Session::judge`] puts a candidate into a sandbox and asks it for
//! outputs; everything that decides lies in this process or in the referee. All `unsafe` of kforge is in `memory`.

mod cache;
mod cell;
mod channel;
mod claims;
mod compilers;
mod device;
pub mod doctor;
mod error;
mod failure;
mod harness;
mod judge;
mod load;
mod log;
pub mod machine;
mod memory;
pub mod process;
mod profile;
pub mod python;
mod referee;
mod sandbox;
mod seccomp;
mod slots;
mod window;
mod wire;
mod zygote;

pub use cache::CacheDirs;
pub use device::{Place, cuda::nvidia, device_lock::busy};
pub use error::{ExecError, Result};
pub use harness::{framework_ways_source, runtime_sources};
pub use judge::{BaselineChoice, Contender, EvalOptions, Incumbent, Observer, Session, probe_sandbox};
pub use profile::ProfileOptions;
