//! tmp
#![allow(dead_code)]
mod device;
mod findings;
mod kernels;
mod metrics;
mod names;
mod ncu;
mod resources;
mod sanitizer;
mod sass;
