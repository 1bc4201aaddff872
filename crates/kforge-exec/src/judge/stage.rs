//! The parts of an evaluation whose times are told.

/// By the name that results and their readers know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    /// Python with torch starts.
    Start,
    /// Others end first.
    Wait,
    Problem,
    Sandbox,
    Build,
    Verify,
    Audit,
    /// Triton's kernels, and those of CuTe DSL, are compiled for a device that is not here.
    AheadOfTime,
    /// Verifying again on other draws.
    Redraws,
    Baselines,
    /// The sets that timing needs.
    Truths,
    Time,
}

impl Stage {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Wait => "wait",
            Self::Problem => "problem",
            Self::Sandbox => "sandbox",
            Self::Build => "build",
            Self::Verify => "verify",
            Self::Audit => "audit",
            Self::AheadOfTime => "ahead_of_time",
            Self::Redraws => "redraws",
            Self::Baselines => "baselines",
            Self::Truths => "truths",
            Self::Time => "time",
        }
    }
}
