//! The ladder for NVIDIA GPUs: Nsight Compute on the candidate's own kernels, what the compiler gave them, their machine
//! code, torch's profiler, and the roofline; and compute-sanitizer as a gate. docs/design/profile.md has the reasons.
//!
//! Files are rungs or readers of one tool's text; `session` puts the rungs together, `gate` the checks. All readers are
//! pure: what they are given was in hostile hands.

mod capture;
mod counters;
mod device;
mod findings;
mod gate;
mod kernels;
mod metrics;
mod names;
mod ncu;
mod resources;
mod sanitizer;
mod sass;
mod session;
mod tool;
