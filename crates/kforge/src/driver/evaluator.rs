//! Who judges: the real evaluator, opened when the first candidate is there.

use kforge_exec::{EvalOptions, ExecError, Observer, ProfileOptions, Session};
use kforge_types::{Check, EvalResult, Kind, Profile, SANITIZER, SanitizerReport, State};
use std::path::PathBuf;

const STAYED: &str = "; other kforge sessions held a part of the device's memory all the while";

/// Verdicts, times and profiles. `Err` means that our machinery failed, never that a kernel is bad.
pub(crate) trait Evaluator {
    fn judge(&mut self, name: &str, source: &str, observer: &dyn Observer) -> anyhow::Result<EvalResult>;

    fn profile(&mut self, source: &str, options: ProfileOptions, observer: &dyn Observer) -> anyhow::Result<Profile>;

    /// Judges once more with new secret inputs in fresh processes.
    fn confirm(&mut self, name: &str, source: &str, observer: &dyn Observer) -> anyhow::Result<EvalResult>;
}

/// The machinery failed twice on one candidate and works otherwise: the run goes on without that candidate.
#[derive(Debug)]
pub(crate) struct GaveUp(pub(crate) String);

impl std::fmt::Display for GaveUp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the evaluator failed on this candidate twice: {}", self.0)
    }
}

impl std::error::Error for GaveUp {}

/// A session of `kforge-exec` that is made when it is needed.
pub(crate) struct LiveEvaluator {
    options: EvalOptions,
    problem: PathBuf,
    session: Option<Session>,
}

impl LiveEvaluator {
    pub(crate) fn new(options: EvalOptions, problem: PathBuf) -> Self {
        Self { options, problem, session: None }
    }

    fn session(&mut self, observer: &dyn Observer) -> anyhow::Result<&mut Session> {
        if self.session.is_none() {
            self.session = Some(Session::open(self.options.clone(), &self.problem, observer)?);
        }
        self.session.as_mut().ok_or_else(|| anyhow::anyhow!("no session"))
    }

    /// In `session`, and where others left it too little of the device, in one that has the device for itself.
    fn judge_in(
        &self,
        session: Session,
        options: &EvalOptions,
        case: &Case<'_>,
    ) -> Result<(Seat<Session>, EvalResult), ExecError> {
        let alone = || Session::open_alone(options.clone(), &self.problem, case.observer);
        judge_beside_others(session, alone, case)
    }
}

impl Evaluator for LiveEvaluator {
    /// A session that failed is thrown away, and the candidate judged in a new one: once.
    fn judge(&mut self, name: &str, source: &str, observer: &dyn Observer) -> anyhow::Result<EvalResult> {
        let case = Case { name, source, observer };
        let mut first_try = true;
        loop {
            self.session(observer)?;
            let Some(session) = self.session.take() else { anyhow::bail!("no session") };
            match self.judge_in(session, &self.options, &case) {
                Ok((seat, result)) => {
                    self.session = seat.usual();
                    return Ok(result);
                }
                Err(error) if stays(&error) => return Err(error.into()),
                Err(error) if first_try => tracing::warn!("the evaluator failed and is started anew: {error}"),
                Err(error) => return Err(GaveUp(error.to_string()).into()),
            }
            first_try = false;
        }
    }

    fn profile(&mut self, source: &str, options: ProfileOptions, observer: &dyn Observer) -> anyhow::Result<Profile> {
        let profile = self.session(observer)?.profile(source, options, observer);
        if profile.is_err() {
            self.session = None;
        }
        Ok(profile?)
    }

    fn confirm(&mut self, name: &str, source: &str, observer: &dyn Observer) -> anyhow::Result<EvalResult> {
        self.session = None;
        // Secret inputs are drawn anew; baselines that were kept stay, and are measured beside the winner again.
        let options = EvalOptions { fresh: true, ..self.options.clone() };
        let session = Session::open(options.clone(), &self.problem, observer)?;
        let (seat, mut result) = self.judge_in(session, &options, &Case { name, source, observer })?;
        if result.state == State::Correct
            && let Some(mut session) = seat.any().filter(Session::runs_on_gpu)
        {
            match session.sanitize(source, observer) {
                Ok(report) => gate(&mut result, &report),
                Err(error) => {
                    tracing::warn!("compute-sanitizer could not be run: {error}");
                    let detail = format!("not tried: {error}");
                    result.checks.push(Check { name: SANITIZER.to_owned(), passed: false, detail });
                }
            }
        }
        Ok(result)
    }
}

/// One candidate, and who is told how it goes.
struct Case<'a> {
    name: &'a str,
    source: &'a str,
    observer: &'a dyn Observer,
}

/// Where a candidate is judged. A test puts another in a session's place.
trait Court: Sized {
    fn judge(&mut self, case: &Case<'_>) -> Result<EvalResult, ExecError>;

    /// Whether others hold memory of the same device.
    fn has_company(&self) -> Result<bool, ExecError>;
}

impl Court for Session {
    fn judge(&mut self, case: &Case<'_>) -> Result<EvalResult, ExecError> {
        self.judge(case.name, case.source, case.observer)
    }

    fn has_company(&self) -> Result<bool, ExecError> {
        self.has_company()
    }
}

/// What became of the one who judged.
enum Seat<C> {
    Usual(C),
    /// It has the whole device, and is not to keep it.
    Alone(C),
    Gone,
}

impl<C> Seat<C> {
    fn usual(self) -> Option<C> {
        if let Self::Usual(court) = self { Some(court) } else { None }
    }

    fn any(self) -> Option<C> {
        if let Self::Usual(court) | Self::Alone(court) = self { Some(court) } else { None }
    }
}

/// What fails for want of memory while others have some of it is judged once more with the whole device: nobody knows
/// whose fault it was. What was found before stands where the others stay.
fn judge_beside_others<C: Court>(
    mut court: C,
    alone: impl FnOnce() -> Result<Option<C>, ExecError>,
    case: &Case<'_>,
) -> Result<(Seat<C>, EvalResult), ExecError> {
    let company = |court: &C| {
        court.has_company().unwrap_or_else(|error| {
            tracing::warn!("whether others use the device cannot be seen: {error}");
            false
        })
    };
    let before = company(&court);
    let judged = court.judge(case);
    let may_lack_memory = match &judged {
        Ok(result) => result.kind == Some(Kind::OutOfMemory),
        // A process that finds none when it starts says nothing any more.
        Err(error) => matches!(error, ExecError::NoRoom(_) | ExecError::Harness(_)),
    };
    if !may_lack_memory || !(before || company(&court)) {
        return judged.map(|result| (Seat::Usual(court), result));
    }
    drop(court);
    if let Some(mut court) = alone()? {
        let result = court.judge(case)?;
        return Ok((Seat::Alone(court), result));
    }
    let mut result = judged?;
    result.reason.push_str(STAYED);
    Ok((Seat::Gone, result))
}

/// Whether another try would find the same problem and the same machine. A device that is out of use above all: the
/// candidate that stopped it must not come to another one by itself.
fn stays(error: &ExecError) -> bool {
    match error {
        ExecError::Problem(_)
        | ExecError::NoRoom(_)
        | ExecError::Toolchain(_)
        | ExecError::Sandbox(_)
        | ExecError::Busy(_)
        | ExecError::OutOfUse(_) => true,
        ExecError::Harness(_) | ExecError::Io { .. } => false,
    }
}

/// Outputs that are right do not excuse accesses that are wrong: such a winner goes back. A tool that did not run has
/// found nothing, which is not the same as nothing to be found.
fn gate(result: &mut EvalResult, report: &SanitizerReport) {
    for tool in &report.tools {
        let name = format!("{SANITIZER} {}", tool.name);
        let passed = tool.ran && (tool.errors == 0 || tool.advisory);
        result.checks.push(Check { name, passed, detail: tool.detail.clone() });
    }
    if let Some(verdict) = report.verdict() {
        (result.state, result.kind, result.reason) = (verdict.state, verdict.kind, verdict.reason);
        (result.speedup, result.speedup_ci) = (None, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::scripted::verdict;
    use kforge_types::SanitizerTool;

    #[test]
    fn a_winner_with_bad_accesses_goes_back_and_an_advisory_finding_is_only_noted() {
        let report = |advisory| SanitizerReport {
            sizes: "reduced sizes".to_owned(),
            tools: vec![SanitizerTool {
                name: "racecheck".to_owned(),
                ran: true,
                errors: 1,
                advisory,
                ..SanitizerTool::default()
            }],
        };
        let mut sent_back = verdict("a", "# speedup 2.0");
        gate(&mut sent_back, &report(false));
        assert_eq!((sent_back.state, sent_back.kind), (State::RuntimeError, Some(Kind::Sanitizer)));
        assert!(sent_back.reason.contains("racecheck") && sent_back.speedup.is_none());
        assert!(sent_back.checks.iter().any(|check| check.name == "compute-sanitizer racecheck" && !check.passed));
        let mut noted = verdict("a", "# speedup 2.0");
        gate(&mut noted, &report(true));
        assert!(noted.state == State::Correct && noted.speedup.is_some());
        assert!(noted.checks.iter().all(|check| check.passed));
    }

    #[test]
    fn a_tool_that_did_not_run_has_not_passed_and_does_not_send_back() {
        let detail = "compute-sanitizer is not installed".to_owned();
        let tool = SanitizerTool { name: "memcheck".to_owned(), detail, ..SanitizerTool::default() };
        let mut winner = verdict("a", "# speedup 2.0");
        gate(&mut winner, &SanitizerReport { sizes: String::new(), tools: vec![tool] });
        assert_eq!(winner.state, State::Correct);
        assert!(winner.checks.iter().any(|check| check.name == "compute-sanitizer memcheck" && !check.passed));
    }

    /// Pretends to be a session.
    struct Pretend {
        answer: Option<Result<EvalResult, ExecError>>,
        company: bool,
    }

    impl Court for Pretend {
        fn judge(&mut self, _case: &Case<'_>) -> Result<EvalResult, ExecError> {
            self.answer.take().unwrap()
        }

        fn has_company(&self) -> Result<bool, ExecError> {
            Ok(self.company)
        }
    }

    struct Quiet;

    impl Observer for Quiet {
        fn stage(&self, _text: &str) {}
    }

    fn out_of_memory() -> EvalResult {
        let mut result = verdict("a", "# speedup 2.0");
        (result.state, result.kind) = (State::RuntimeError, Some(Kind::OutOfMemory));
        result
    }

    fn judged(
        first: Result<EvalResult, ExecError>,
        company: bool,
        alone: Option<Result<EvalResult, ExecError>>,
    ) -> (Result<(Seat<Pretend>, EvalResult), ExecError>, bool) {
        let case = Case { name: "a", source: "", observer: &Quiet };
        let mut asked = false;
        let open = || {
            asked = true;
            Ok(alone.map(|answer| Pretend { answer: Some(answer), company: false }))
        };
        let judged = judge_beside_others(Pretend { answer: Some(first), company }, open, &case);
        (judged, asked)
    }

    #[test]
    fn a_neighbour_that_takes_the_memory_is_nobodys_verdict() {
        let no_room = || Err(ExecError::NoRoom("full".to_owned()));
        let silent = || Err(ExecError::Harness("a cell does not start".to_owned()));
        for first in [Ok(out_of_memory()), no_room(), silent()] {
            let (judged, asked) = judged(first, true, Some(Ok(verdict("a", "# speedup 2.0"))));
            let (seat, result) = judged.unwrap();
            assert!(asked && matches!(seat, Seat::Alone(_)) && result.state == State::Correct);
        }
        // What it is alone, it is.
        let (alone, _) = judged(Ok(out_of_memory()), true, Some(Ok(out_of_memory())));
        assert_eq!(alone.unwrap().1.kind, Some(Kind::OutOfMemory));
        let (refused, _) = judged(no_room(), true, Some(no_room()));
        assert!(matches!(refused, Err(ExecError::NoRoom(_))));
    }

    #[test]
    fn without_neighbours_or_with_enough_memory_nothing_is_judged_twice() {
        for (first, company) in [(Ok(out_of_memory()), false), (Ok(verdict("a", "# speedup 2.0")), true)] {
            let (judged, asked) = judged(first, company, None);
            assert!(!asked && judged.unwrap().0.usual().is_some());
        }
        let (problem, asked) = judged(Err(ExecError::Problem("odd".to_owned())), true, None);
        assert!(!asked && problem.is_err());
    }

    #[test]
    fn where_the_neighbours_stay_the_first_verdict_stands_and_says_so() {
        let (stayed, _) = judged(Ok(out_of_memory()), true, None);
        let (seat, result) = stayed.unwrap();
        assert!(seat.any().is_none() && result.reason.ends_with(STAYED));
    }

    #[test]
    fn nothing_is_tried_again_on_a_device_that_is_out_of_use() {
        assert!(stays(&ExecError::OutOfUse("GPU 0 does not answer".to_owned())));
        assert!(!stays(&ExecError::Harness("it ended".to_owned())));
    }
}
