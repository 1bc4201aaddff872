//! One request to a model, within the budgets.

use super::{Driver, Progress, inputs::Conversation};
use crate::run::event::{CallFailure, Estimate, Event, Role, StopReason};
use kforge_models::{CallError, CallErrorKind, Effort, Label, Prices, Request, Watch};
use std::time::{Duration, Instant};

/// Fewer tokens than this are not worth asking for.
const LEAST_OUTPUT: u64 = 512;
/// No reply is longer than this, nearly.
const USUAL_MOST: u64 = 32_768;
/// A limit that is said to be lifted already, or in years, is misread.
const LONGEST_PAUSE: Duration = Duration::from_hours(24);
/// Where a limit does not say when it is lifted.
const UNKNOWN_PAUSE: Duration = Duration::from_mins(15);

/// How one agent is asked.
#[derive(Debug, Clone, Default)]
pub(crate) struct Params {
    pub(crate) max_output_tokens: Option<u64>,
    pub(crate) temperature: Option<f64>,
    pub(crate) effort: Option<Effort>,
    pub(crate) prices: Option<Prices>,
}

/// Passes a call's progress on, and ends it when the time is up.
struct Patience<'a> {
    progress: &'a dyn Progress,
    what: String,
    until: Option<Instant>,
}

impl Watch for Patience<'_> {
    fn received(&self, characters: usize) {
        self.progress.stage(&format!("{}: {characters} characters", self.what));
    }

    fn waiting(&self, text: &str) {
        self.progress.note(text);
    }

    fn cancelled(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() >= until)
    }
}

impl Driver<'_> {
    pub(crate) fn ask(&mut self, attempt: u32, role: Role, ordinal: u32, repair: bool) -> anyhow::Result<()> {
        let found = self.history.attempt(attempt).ok_or_else(|| anyhow::anyhow!("there is no attempt {attempt}"))?;
        let conversation = self.render(found, role, repair)?;
        let agent = match role {
            Role::Analyst => &self.analyst,
            Role::Generator => &self.generator,
        };
        let (model, params) = (agent.model.clone(), agent.params.clone());
        let max_output_tokens = match self.affordable(&conversation, &params) {
            Ok(limit) => limit,
            Err((reason, text)) => return self.record(Event::Stopped { reason, text }),
        };
        let conversation_tokens = conversation.tokens();
        let request = Request {
            label: Label {
                problem: self.task.name.clone(),
                problem_hash: self.task.hash.clone(),
                target: self.task.target.to_string(),
                role: role.name().to_owned(),
                ordinal,
            },
            system: conversation.system,
            turns: conversation.turns,
            images: Vec::new(),
            max_output_tokens,
            temperature: params.temperature,
            effort: params.effort,
        };
        self.artifacts.prompt(attempt, role, ordinal, &request)?;
        let texts: Vec<&str> = request.turns.iter().map(|turn| turn.text.as_str()).chain([&*request.system]).collect();
        let prompt_hash = kforge_types::short_hash(&texts);
        let input = conversation_tokens;
        let usd = params.prices.map_or(0.0, |prices| input as f64 * prices.input / 1e6);
        self.record(Event::Asked { attempt, role, ordinal, prompt_hash, estimate: Estimate { input, usd } })?;
        let what = format!("the {} writes", role.name());
        self.progress.stage(&format!("asking the {} ({})", role.name(), model.name()));
        let patience = Patience { progress: self.progress, what, until: self.deadline() };
        match model.ask(&request, &patience) {
            Ok(reply) => self.record(Event::Replied { attempt, role, ordinal, reply }),
            Err(error) => self.failed(attempt, role, ordinal, &error),
        }
    }

    fn failed(&mut self, attempt: u32, role: Role, ordinal: u32, error: &CallError) -> anyhow::Result<()> {
        let pause = match error.kind {
            CallErrorKind::LimitReached { lifted_in } => {
                Some(lifted_in.unwrap_or(UNKNOWN_PAUSE).clamp(self.least_pause, LONGEST_PAUSE))
            }
            _ => None,
        };
        let failure = CallFailure {
            kind: format!("{:?}", error.kind).split([' ', '{']).next().unwrap_or_default().to_owned(),
            text: error.text.clone(),
            attempts: error.attempts,
            may_be_billed: error.may_be_billed,
            fatal: is_fatal(error),
            paused: pause.is_some(),
        };
        self.record(Event::CallFailed { attempt, role, ordinal, failure })?;
        if let Some(pause) = pause {
            self.pause(pause);
        }
        Ok(())
    }

    /// Sleeps until a limit is lifted, or the time budget is over.
    fn pause(&self, pause: Duration) {
        let minutes = pause.as_secs().div_ceil(60);
        self.progress
            .note(&format!("a limit is reached; trying again in {minutes} min (Ctrl-C and `kforge resume` is safe)"));
        let end = Instant::now() + pause;
        let end = self.deadline().map_or(end, |deadline| deadline.min(end));
        while Instant::now() < end {
            std::thread::sleep(Duration::from_millis(200).min(end - Instant::now()));
        }
    }

    fn deadline(&self) -> Option<Instant> {
        let limit = self.rules.limits.seconds?;
        let left = limit - self.elapsed_before;
        Some(self.begun + Duration::from_secs_f64(left.clamp(0.0, 1e9)))
    }

    /// How long the reply may be so that no cap is passed; what the model itself allows is the registry's business.
    fn affordable(&self, conversation: &Conversation, params: &Params) -> Result<Option<u64>, (StopReason, String)> {
        // Code has more tokens than its length suggests.
        let input = conversation.tokens() * 13 / 10;
        let spend = &self.history.spend;
        let mut most = params.max_output_tokens;
        if let Some(limit) = self.rules.limits.tokens {
            let left = limit.saturating_sub(spend.tokens() + input);
            if left < LEAST_OUTPUT {
                let text = format!("{} of {limit} tokens used; the next call needs more than is left", spend.tokens());
                return Err((StopReason::Tokens, text));
            }
            most = shortened(most, left);
        }
        if let (Some(limit), Some(prices)) = (self.rules.limits.usd, &params.prices) {
            let left = limit - spend.usd - input as f64 * prices.input / 1e6;
            let tokens = match (left > 0.0, prices.output > 0.0) {
                (false, _) => 0,
                (true, false) => u64::MAX,
                (true, true) => (left / prices.output * 1e6).clamp(0.0, 1e12) as u64,
            };
            if tokens < LEAST_OUTPUT {
                let text = format!("${:.4} of ${limit:.2} spent; the next call may cost more than is left", spend.usd);
                return Err((StopReason::Dollars, text));
            }
            most = shortened(most, tokens);
        }
        Ok(most)
    }
}

/// A cap shortens the reply only where it is near: servers refuse limits that are larger than a model can give.
fn shortened(most: Option<u64>, left: u64) -> Option<u64> {
    match most {
        Some(most) => Some(most.min(left)),
        None => (left < USUAL_MOST).then_some(left),
    }
}

/// Whether asking again cannot help until the user does something: the key, the name, or the server itself. One that works
/// and fails now and then costs an attempt.
fn is_fatal(error: &CallError) -> bool {
    match error.kind {
        CallErrorKind::NoKey
        | CallErrorKind::KeyRefused
        | CallErrorKind::Rejected
        | CallErrorKind::NoRecording
        | CallErrorKind::Setup
        | CallErrorKind::Unreachable => true,
        // Behind a gateway a dead server is an error of the gateway's.
        CallErrorKind::Server => !error.may_be_billed,
        _ => false,
    }
}
