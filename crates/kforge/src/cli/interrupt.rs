//! Ctrl-C: what was kept and how to resume is said before the process ends as it would without this.

use super::printer::Printer;
use anyhow::Context;
use signal_hook::{
    consts::{SIGINT, SIGTERM},
    iterator::Signals,
    low_level::emulate_default_handler,
};

/// Does the work; a signal that ends the process meanwhile has these words said first. They must not wait for the work.
pub(super) fn with_last_words<T>(
    printer: &Printer,
    words: &(dyn Fn() -> String + Sync),
    work: impl FnOnce() -> T,
) -> anyhow::Result<T> {
    let mut signals = Signals::new([SIGINT, SIGTERM]).context("listening for Ctrl-C")?;
    let handle = signals.handle();
    let done = std::thread::scope(|scope| {
        scope.spawn(move || {
            if let Some(signal) = signals.forever().next() {
                printer.idle();
                printer.note(&words());
                let _ = emulate_default_handler(signal);
            }
        });
        let _closed = Closing(&handle);
        work()
    });
    Ok(done)
}

/// Ends the listening also where the work panics.
struct Closing<'a>(&'a signal_hook::iterator::Handle);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}
