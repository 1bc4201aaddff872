//! Why a step gave nothing, as one type, so that `?` hands it on to whoever has to know.

use crate::error::{ExecError, Result};
use kforge_types::Verdict;

/// Whose fault it is that a step gave nothing.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The candidate's: a verdict.
    Refused(Refusal),
    /// Nobody's: it cannot be done here, for this reason.
    Denied(String),
    /// Our own machinery's.
    Failed(ExecError),
}

/// A verdict on its way to the outcome.
#[derive(Debug)]
pub(crate) struct Refusal {
    /// Which check was not passed, once the check has put its name to it.
    pub(crate) check: String,
    pub(crate) verdict: Verdict,
}

/// What a step gave, or why it gave nothing.
pub(crate) type Tried<T> = std::result::Result<T, Failure>;

impl From<Verdict> for Failure {
    fn from(verdict: Verdict) -> Self {
        Self::Refused(Refusal { check: String::new(), verdict })
    }
}

impl From<String> for Failure {
    fn from(reason: String) -> Self {
        Self::Denied(reason)
    }
}

impl From<ExecError> for Failure {
    fn from(error: ExecError) -> Self {
        Self::Failed(error)
    }
}

/// What becomes of a failure on its way. Our own are never anything else.
pub(crate) trait OnFailure<T>: Sized {
    /// A refusal is this check's.
    fn check(self, name: impl Into<String>) -> Tried<T>;

    /// A refusal is but a reason, in words that are made of it.
    fn denied(self, words: impl FnOnce(&Verdict) -> String) -> Tried<T>;

    /// A refusal or a denial is the reason for `what`.
    fn because(self, what: &str) -> Tried<T>;

    /// The reason of a refusal or a denial, for whoever can do without what was tried.
    fn or_reason(self) -> Result<std::result::Result<T, String>>;
}

impl<T, E: Into<Failure>> OnFailure<T> for std::result::Result<T, E> {
    fn check(self, name: impl Into<String>) -> Tried<T> {
        self.map_err(|failure| match failure.into() {
            Failure::Refused(refusal) => Failure::Refused(Refusal { check: name.into(), ..refusal }),
            other => other,
        })
    }

    fn denied(self, words: impl FnOnce(&Verdict) -> String) -> Tried<T> {
        self.map_err(|failure| match failure.into() {
            Failure::Refused(refusal) => Failure::Denied(words(&refusal.verdict)),
            other => other,
        })
    }

    fn because(self, what: &str) -> Tried<T> {
        self.or_reason()?.map_err(|reason| Failure::Denied(format!("{what}: {reason}")))
    }

    fn or_reason(self) -> Result<std::result::Result<T, String>> {
        match self.map_err(Into::into) {
            Ok(made) => Ok(Ok(made)),
            Err(Failure::Refused(refusal)) => Ok(Err(refusal.verdict.reason)),
            Err(Failure::Denied(reason)) => Ok(Err(reason)),
            Err(Failure::Failed(error)) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kforge_types::Kind;

    fn refused() -> Tried<()> {
        Err(Verdict::of(Kind::Numeric, "3 of 9 elements differ").into())
    }

    fn failed() -> Tried<()> {
        Err(ExecError::harness("gone").into())
    }

    #[test]
    fn a_refusal_has_the_name_of_the_check_nearest_to_the_outcome() {
        let found = refused().check("slices changed").check("other draws");
        assert!(matches!(found, Err(Failure::Refused(Refusal { check, .. })) if check == "other draws"));
        assert!(matches!(failed().check("slices changed"), Err(Failure::Failed(_))));
    }

    #[test]
    fn a_reason_is_for_those_who_can_do_without() {
        assert_eq!(
            refused().because("not checked").or_reason().unwrap().unwrap_err(),
            "not checked: 3 of 9 elements differ"
        );
        let short = refused().denied(|verdict| verdict.kind.map(Kind::name).unwrap_or_default()).because("not checked");
        assert_eq!(short.or_reason().unwrap().unwrap_err(), "not checked: numeric");
        assert!(failed().denied(|_| String::new()).because("not checked").or_reason().is_err());
    }
}
