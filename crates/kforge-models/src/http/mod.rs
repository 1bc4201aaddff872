//! Models behind HTTP: one call with its retries, limits, time-outs and costs.
//!
//! [`exchange`] moves bytes, [`crate::wire`] gives them meaning, [`Patience`] says how often and how long, [`Limiter`] who
//! may go first. A reply is complete or it is none: half a kernel is never handed on.

mod attempt;
mod exchange;
mod limiter;
mod patience;
mod tally;

use std::sync::Arc;
use std::time::{Duration, Instant};

pub(crate) use limiter::{LOOK, Limiter};
pub use patience::Patience;

use crate::fault::Fault;
use crate::key::Key;
use crate::registry::{Entry, Registry};
use crate::support::setup;
use crate::wire::{self, Outgoing, Partial};
use crate::{CallError, CallErrorKind, Model, Reply, Request, Stop, Watch};
use patience::Next;
use tally::Tally;

/// A model on a server.
pub struct HttpModel {
    name: String,
    entry: Entry,
    patience: Patience,
    limiter: Arc<Limiter>,
    client: reqwest::Client,
    url: reqwest::Url,
}

impl HttpModel {
    /// For an entry of this registry whose wire is not a command.
    pub fn new(name: &str, entry: Entry, registry: &Registry) -> Result<Self, CallError> {
        let patience = entry.timeouts.into();
        Self::with_patience(name, entry, registry, patience)
    }

    /// The same with other durations than the entry's.
    pub fn with_patience(name: &str, entry: Entry, registry: &Registry, patience: Patience) -> Result<Self, CallError> {
        let url: reqwest::Url = entry
            .base_url
            .parse()
            .map_err(|error| setup(format!("{name}: base_url is no address ({error}); mend it in the registry")))?;
        let loopback = match url.host_str() {
            Some("localhost") => true,
            Some(host) => {
                host.trim_matches(['[', ']']).parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
            }
            None => false,
        };
        let client = exchange::client(patience.connect, loopback)?;
        let limiter = registry.limiter(&entry);
        Ok(Self { name: name.to_owned(), entry, patience, limiter, client, url })
    }
}

impl Model for HttpModel {
    fn name(&self) -> &str {
        &self.name
    }

    fn ask(&self, request: &Request, watch: &dyn Watch) -> Result<Reply, CallError> {
        let started = Instant::now();
        let key = self.entry.key_source().fetch(&self.name, watch)?;
        let outgoing = wire::build(&self.entry, request);
        let body = serde_json::to_vec(&outgoing.body)
            .map_err(|error| setup(format!("the request cannot be written as JSON ({error})")))?;
        let mut tally = Tally::new(request);
        let mut attempts = 0;
        loop {
            let Some(permit) = self.limiter.enter(watch) else { return Err(self.cancelled(attempts, &tally)) };
            attempts += 1;
            let (partial, outcome) = self.attempt(&outgoing, &body, key.as_ref(), watch)?;
            drop(permit);
            let fault = match outcome.and_then(|()| not_empty(&partial)) {
                Ok(()) => {
                    tally.add(&partial);
                    return Ok(self.reply(partial, outgoing, &tally, key.as_ref(), attempts, started));
                }
                Err(fault) => fault,
            };
            if fault.billed {
                tally.add(&partial);
            }
            match self.patience.next(&fault, attempts, patience::jitter()) {
                Next::After(pause) => self.pause(pause, &fault, key.as_ref(), attempts, watch, &tally)?,
                Next::GiveUp if fault.kind == CallErrorKind::Cancelled => return Err(self.cancelled(attempts, &tally)),
                Next::GiveUp => return Err(self.error(fault.kind, &fault, key.as_ref(), attempts, &tally)),
                Next::TooLong(lifted_in) => {
                    let kind = CallErrorKind::LimitReached { lifted_in: Some(lifted_in) };
                    return Err(self.error(kind, &fault, key.as_ref(), attempts, &tally));
                }
            }
        }
    }
}

/// A reply without a word is tried again, unless the model was cut off or declined.
fn not_empty(partial: &Partial) -> Result<(), Fault> {
    if partial.text.trim().is_empty() && !matches!(partial.stop, Some(Stop::Length | Stop::Refused)) {
        return Err(Fault::passing(CallErrorKind::Server, "the server sent an empty reply").billed());
    }
    Ok(())
}

impl HttpModel {
    fn pause(
        &self,
        pause: Duration,
        fault: &Fault,
        key: Option<&Key>,
        attempts: u32,
        watch: &dyn Watch,
        tally: &Tally,
    ) -> Result<(), CallError> {
        if fault.kind == CallErrorKind::RateLimited {
            self.limiter.pause(pause);
        }
        // Why nobody answers is said once, at the end, if nobody does.
        let why = match fault.kind {
            CallErrorKind::Unreachable => "no connection".to_owned(),
            _ => scrubbed(key, &fault.message),
        };
        watch.waiting(&format!("{}: {why}; trying again in {:.1} s", self.name, pause.as_secs_f64()));
        if crate::support::pause(pause, watch) { Ok(()) } else { Err(self.cancelled(attempts, tally)) }
    }

    fn reply(
        &self,
        partial: Partial,
        sent: Outgoing,
        tally: &Tally,
        key: Option<&Key>,
        attempts: u32,
        started: Instant,
    ) -> Reply {
        let mut notes = sent.notes;
        notes.extend(partial.notes);
        let model = scrubbed(key, &partial.model);
        notes.extend(tally::other_model(&self.entry.model, &model));
        notes.extend(tally.notes());
        let usage = tally.usage();
        Reply {
            text: match key {
                Some(key) => key.scrub_whole(partial.text),
                None => partial.text,
            },
            model: if model.is_empty() { self.entry.model.clone() } else { model },
            stop: partial.stop.unwrap_or(Stop::Unknown),
            usage,
            cost_usd: self.entry.price.and_then(|price| price.cost(&usage)),
            seconds: started.elapsed().as_secs_f64(),
            attempts,
            notes,
        }
    }

    fn cancelled(&self, attempts: u32, tally: &Tally) -> CallError {
        let text = format!("{}: the call was ended before its reply", self.name);
        CallError { kind: CallErrorKind::Cancelled, text, attempts, may_be_billed: tally.any() }
    }

    /// Says what happened, where, and what to do.
    fn error(&self, kind: CallErrorKind, fault: &Fault, key: Option<&Key>, attempts: u32, tally: &Tally) -> CallError {
        let host = self.url.host_str().unwrap_or_default();
        let port = self.url.port().map(|port| format!(":{port}")).unwrap_or_default();
        let tries = if attempts > 1 { format!(" ({attempts} attempts)") } else { String::new() };
        let said = scrubbed(key, &fault.message);
        let advice = self.advice(kind);
        let text = format!("{} at {host}{port}{tries}: {said}; {advice}", self.name);
        CallError { kind, text, attempts, may_be_billed: fault.billed || tally.any() }
    }

    fn advice(&self, kind: CallErrorKind) -> String {
        match kind {
            CallErrorKind::KeyRefused => match (&self.entry.key_env, &self.entry.key_command) {
                (Some(variable), _) => format!("check the key in {variable}, and whether it may use this model"),
                (None, Some(_)) => "check the key that key_command prints, and whether it may use this model".into(),
                (None, None) => "the server wants a key: give key_env instead of no_key in the registry".into(),
            },
            CallErrorKind::RateLimited => "set requests_per_minute or max_parallel for it in the registry, or ask later".into(),
            CallErrorKind::LimitReached { lifted_in: Some(pause) } => {
                format!("the limit is lifted in {} s: resume then, or use another model", pause.as_secs())
            }
            CallErrorKind::LimitReached { lifted_in: None } => "look at the account's balance and limits, or use another model".into(),
            CallErrorKind::TooLong => "shorten the prompt or use a model with a larger context".into(),
            CallErrorKind::Unreachable => {
                "check that the server runs, base_url in the registry, the network, and HTTPS_PROXY where there is a proxy".into()
            }
            CallErrorKind::Cut | CallErrorKind::Server => "ask again later".into(),
            CallErrorKind::Timeout => "raise timeouts for it in the registry, or see whether the server still works".into(),
            CallErrorKind::Rejected => "check the model's name, base_url and the extra fields of its entry in the registry".into(),
            CallErrorKind::Garbled => "check that base_url and wire in the registry fit the server".into(),
            _ => "see `kforge models`".into(),
        }
    }
}

fn scrubbed(key: Option<&Key>, text: &str) -> String {
    key.map_or_else(|| text.to_owned(), |key| key.scrub(text))
}
