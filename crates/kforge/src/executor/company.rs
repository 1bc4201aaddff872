//! Judging on a device of which others hold a part.

use kforge_exec::{ExecError, Observer, Session};
use kforge_types::{EvalResult, Kind};

const STAYED: &str = "; other kforge sessions held a part of the device's memory all the while";

/// One candidate, and who is told how it goes.
pub(super) struct Case<'a> {
    pub(super) name: &'a str,
    pub(super) source: &'a str,
    pub(super) observer: &'a dyn Observer,
}

/// Where a candidate is judged. A test puts another in a session's place.
pub(super) trait Court: Sized {
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
pub(super) enum Seat<C> {
    Usual(C),
    /// It has the whole device, and is not to keep it.
    Alone(C),
    Gone,
}

impl<C> Seat<C> {
    pub(super) fn usual(self) -> Option<C> {
        if let Self::Usual(court) = self { Some(court) } else { None }
    }

    pub(super) fn any(self) -> Option<C> {
        if let Self::Usual(court) | Self::Alone(court) = self { Some(court) } else { None }
    }
}

/// What fails for want of memory while others have some of it is judged once more with the whole device: nobody knows
/// whose fault it was. What was found before stands where the others stay.
pub(super) fn judge_beside_others<C: Court>(
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

#[cfg(test)]
mod tests {
    use super::{super::scripted::verdict, *};
    use kforge_types::State;

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
}
