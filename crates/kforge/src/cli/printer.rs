//! The only way to print: answers to stdout, everything else to stderr, bars on a terminal only.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::{
    io::{IsTerminal, Write},
    sync::Mutex,
    time::Duration,
};

pub(crate) struct Printer {
    bar: ProgressBar,
    last: Mutex<String>,
}

impl Printer {
    pub(crate) fn new() -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template("{spinner} {wide_msg} {elapsed}") {
            bar.set_style(style);
        }
        Self { bar, last: Mutex::default() }
    }

    /// The answer. A closed pipe is the reader's choice, not an error.
    pub(crate) fn answer(&self, text: &str) {
        self.bar.suspend(|| {
            let mut out = std::io::stdout().lock();
            let _ = writeln!(out, "{text}").and_then(|()| out.flush());
        });
    }

    /// For people, beside the answer.
    pub(crate) fn note(&self, text: &str) {
        self.bar.suspend(|| {
            let _ = writeln!(std::io::stderr().lock(), "{text}");
        });
    }

    /// What is going on now.
    pub(crate) fn working(&self, text: &str) {
        if std::io::stderr().is_terminal() {
            self.bar.enable_steady_tick(Duration::from_millis(120));
            self.bar.set_message(text.to_owned());
        } else if let Ok(mut last) = self.last.lock()
            && *last != text
        {
            self.note(&format!("kforge: {text}"));
            text.clone_into(&mut last);
        }
    }

    pub(crate) fn idle(&self) {
        self.bar.disable_steady_tick();
        self.bar.finish_and_clear();
    }

    pub(crate) fn is_terminal() -> bool {
        std::io::stderr().is_terminal()
    }

    /// How wide tables may be where a person reads them.
    pub(crate) fn width() -> Option<u16> {
        std::io::stdout().is_terminal().then_some(110)
    }
}

impl kforge_exec::Observer for Printer {
    fn stage(&self, text: &str) {
        self.working(text);
    }
}

impl kforge_exec::python::Progress for Printer {
    fn message(&self, text: &str) {
        self.note(&format!("kforge: {text}"));
    }

    fn step(&self, text: &str) {
        // Installers say something every second; a log needs only the lasting lines.
        if std::io::stderr().is_terminal() {
            self.working(text);
        }
    }

    fn done(&self) {
        self.idle();
    }
}
