//! What a person sees of a run while it goes on: a line that changes on a terminal, plain lines elsewhere, events as JSON.

use super::printer::Printer;
use crate::{
    driver::Progress,
    run::{
        account::dollars,
        event::Line,
        history::{Attempt, History},
    },
    view,
};
use std::{
    collections::BTreeSet,
    sync::Mutex,
    time::{Duration, Instant},
};

pub(crate) struct RunProgress<'a> {
    printer: &'a Printer,
    json: bool,
    iterations: u32,
    deadline: Option<Instant>,
    status: Mutex<String>,
    kept: Mutex<String>,
    said: Mutex<BTreeSet<String>>,
}

impl<'a> RunProgress<'a> {
    pub(crate) fn new(
        printer: &'a Printer,
        json: bool,
        iterations: u32,
        left: Option<Duration>,
        before: &History,
    ) -> Self {
        let deadline = left.and_then(|left| Instant::now().checked_add(left));
        let kept = Mutex::new(view::kept(before));
        Self { printer, json, iterations, deadline, status: Mutex::default(), kept, said: Mutex::default() }
    }

    /// What is on disk already, in words.
    pub(crate) fn kept(&self) -> String {
        self.kept.lock().map(|kept| kept.clone()).unwrap_or_default()
    }

    fn status(&self, history: &History) -> String {
        let pass = history.attempts.last().map(|attempt| attempt.plan.pass.name()).unwrap_or_default();
        let speedup = |best: &Attempt| best.result().and_then(|result| result.speedup);
        let best = match history.best().map(|best| (best.hook_score(), speedup(best))) {
            Some((Some(score), _)) => format!("best score {score}"),
            Some((None, Some(speedup))) => format!("best {speedup:.2}x"),
            Some((None, None)) => "one is correct".to_owned(),
            None => "nothing correct yet".to_owned(),
        };
        let left = self.deadline.map(|deadline| {
            let left = deadline.saturating_duration_since(Instant::now()).as_secs();
            format!(", {}:{:02} left", left / 60, left % 60)
        });
        format!(
            "{}/{} {pass}, {best}, {} tokens, {}{}",
            history.attempts.len(),
            self.iterations,
            history.spend.tokens(),
            dollars(history),
            left.unwrap_or_default()
        )
    }
}

impl kforge_exec::Observer for RunProgress<'_> {
    fn stage(&self, text: &str) {
        let status = self.status.lock().map(|status| status.clone()).unwrap_or_default();
        if Printer::is_terminal() {
            self.printer.working(&format!("[{status}] {text}"));
            return;
        }
        // A log needs each kind of step once; the events tell the rest.
        let kind: String = text.chars().filter(|c| !c.is_ascii_digit()).collect();
        if self.said.lock().is_ok_and(|mut said| said.insert(kind)) {
            self.printer.note(&format!("kforge: {text}"));
        }
    }
}

impl Progress for RunProgress<'_> {
    fn event(&self, line: &Line, history: &History) {
        if let Ok(mut status) = self.status.lock() {
            *status = self.status(history);
        }
        if let Ok(mut kept) = self.kept.lock() {
            *kept = view::kept(history);
        }
        if self.json {
            self.printer.answer(&serde_json::to_string(line).unwrap_or_default());
        }
        if let Some(text) = view::event(line, history) {
            self.printer.note(&format!("kforge: {text}"));
        }
    }

    fn note(&self, text: &str) {
        self.printer.note(&format!("kforge: {text}"));
    }
}
