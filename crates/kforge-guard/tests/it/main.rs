//! Fixtures by glob, the generated page, and hostile input.

mod fixtures;
mod hostile;
mod page;
