//! A model that says what it was told to say. For tests and benchmarks of what uses models: no product path builds one.

#[cfg(test)]
use crate::CallErrorKind;
#[cfg(test)]
use crate::support::failure;
use crate::support::{cancelled, estimated_usage, pause};
use crate::{CallError, Model, Reply, Request, Stop, Watch};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

type Script = Box<dyn Fn(&Request, usize) -> Result<Reply, CallError> + Send + Sync>;

/// Answers from a list or a closure and remembers what it was asked.
pub struct Scripted {
    name: String,
    script: Script,
    delay: Duration,
    asked: Mutex<Vec<Request>>,
}

impl Scripted {
    /// Answers by calling `script` with the request and the number of calls before it.
    pub fn new(script: impl Fn(&Request, usize) -> Result<Reply, CallError> + Send + Sync + 'static) -> Self {
        Self { name: "scripted".into(), script: Box::new(script), delay: Duration::ZERO, asked: Mutex::default() }
    }

    /// A complete reply with this text; its tokens are estimated when it is given.
    pub fn reply(text: impl Into<String>) -> Reply {
        Reply {
            text: text.into(),
            model: "scripted".into(),
            stop: Stop::End,
            usage: crate::Usage::default(),
            cost_usd: None,
            seconds: 0.0,
            attempts: 1,
            notes: Vec::new(),
        }
    }

    /// Every answer takes this long; cancelling ends the wait.
    #[must_use]
    pub fn delayed(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    fn locked(&self) -> MutexGuard<'_, Vec<Request>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What only the tests of this crate need.
#[cfg(test)]
impl Scripted {
    /// Answers in this order; further calls are errors.
    pub(crate) fn sequence(answers: Vec<Result<Reply, CallError>>) -> Self {
        Self::new(move |request, call| {
            answers.get(call).cloned().unwrap_or_else(|| {
                let label = &request.label;
                let text = format!(
                    "the script has {} answers, and {} {} is call {}: add one",
                    answers.len(),
                    label.role,
                    label.ordinal,
                    call + 1
                );
                Err(failure(CallErrorKind::NoRecording, text))
            })
        })
    }

    /// Answers with these texts in this order.
    pub(crate) fn texts<T: Into<String>>(texts: impl IntoIterator<Item = T>) -> Self {
        Self::sequence(texts.into_iter().map(|text| Ok(Self::reply(text))).collect())
    }

    /// An error of this kind.
    pub(crate) fn error(kind: CallErrorKind, text: impl Into<String>) -> CallError {
        failure(kind, text)
    }

    /// Another name than `scripted`.
    pub(crate) fn named(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// How often it was asked.
    pub(crate) fn calls(&self) -> usize {
        self.locked().len()
    }

    /// All that it was asked, in order.
    pub(crate) fn asked(&self) -> Vec<Request> {
        self.locked().clone()
    }
}

impl Model for Scripted {
    fn name(&self) -> &str {
        &self.name
    }

    fn ask(&self, request: &Request, watch: &dyn Watch) -> Result<Reply, CallError> {
        let started = Instant::now();
        let call = {
            let mut asked = self.locked();
            asked.push(request.clone());
            asked.len() - 1
        };
        if !pause(self.delay, watch) {
            return Err(cancelled("the scripted call"));
        }
        let mut reply = (self.script)(request, call)?;
        if reply.usage == crate::Usage::default() {
            reply.usage = estimated_usage(request, &reply.text);
        }
        reply.seconds = started.elapsed().as_secs_f64();
        watch.received(reply.text.chars().count());
        Ok(reply)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Unwatched;
    use crate::support::testing::{Ear, request};
    use std::collections::BTreeSet;
    use std::sync::atomic::Ordering;
    use std::thread;

    #[test]
    fn a_list_is_given_in_order_and_ends() {
        let limit = Scripted::error(CallErrorKind::RateLimited, "too many");
        let model = Scripted::sequence(vec![Ok(Scripted::reply("one")), Err(limit)]).named("fake");
        assert_eq!(model.ask(&request("generator", 1, "a"), &Unwatched).unwrap().text, "one");
        let error = model.ask(&request("generator", 2, "b"), &Unwatched).unwrap_err();
        assert_eq!(error.kind, CallErrorKind::RateLimited);
        let error = model.ask(&request("generator", 3, "c"), &Unwatched).unwrap_err();
        assert!(error.kind == CallErrorKind::NoRecording && error.text.contains("generator 3"), "{error}");
        assert_eq!((model.calls(), model.name()), (3, "fake"));
        assert_eq!(model.asked()[1].turns[0].text, "b");
    }

    #[test]
    fn a_closure_answers_by_label_from_many_threads() {
        let model = Scripted::new(|request, _| {
            Ok(Scripted::reply(format!("{}-{}", request.label.role, request.label.ordinal)))
        });
        let texts: BTreeSet<String> = thread::scope(|scope| {
            let model = &model;
            let threads: Vec<_> = (1..=4)
                .map(|ordinal| scope.spawn(move || model.ask(&request("analyst", ordinal, "?"), &Unwatched)))
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap().unwrap().text).collect()
        });
        assert_eq!(texts.len(), 4);
        assert!(texts.contains("analyst-3"));
        assert_eq!(model.calls(), 4);
    }

    #[test]
    fn a_long_delay_can_be_cancelled() {
        let ear = Ear::default();
        ear.stop.store(true, Ordering::Relaxed);
        let model = Scripted::texts(["never"]).delayed(Duration::from_hours(1));
        assert_eq!(model.ask(&request("generator", 1, "a"), &ear).unwrap_err().kind, CallErrorKind::Cancelled);
    }
}
