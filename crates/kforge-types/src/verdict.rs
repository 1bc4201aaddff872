//! The six states of a candidate, their sub-kinds and what they are worth as evidence.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The six execution states.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Every check passed.
    Correct,
    /// Its kernels were compiled for a device that is not here. It was never called: nothing is known of its outputs.
    Compiled,
    /// It ran and gave something other than what the reference gives.
    Mismatch,
    /// It raised, crashed, hung, or broke a limit.
    RuntimeError,
    /// The toolchain refused its kernels.
    CompilationFailure,
    /// There is no acceptable candidate: nothing to run, or a rule forbids it.
    GenerationFailure,
}

impl State {
    /// The exit code that `kforge eval` ends with.
    #[must_use]
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Correct => 0,
            Self::Mismatch => 10,
            Self::RuntimeError => 11,
            Self::CompilationFailure => 12,
            Self::GenerationFailure => 13,
            Self::Compiled => 14,
        }
    }

    /// The state in words, for people.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Correct => "correct",
            Self::Compiled => "compiled, never run",
            Self::Mismatch => "mismatch",
            Self::RuntimeError => "runtime error",
            Self::CompilationFailure => "compilation failure",
            Self::GenerationFailure => "generation failure",
        }
    }
}

/// What exactly happened within a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    // generation_failure
    /// The model gave no reply.
    NoReply,
    /// The reply was cut off at the limit on its length.
    Truncated,
    /// The reply holds no candidate.
    NoCode,
    /// The file has no code.
    Empty,
    /// The file is not Python.
    Syntax,
    /// Neither `NewModel` nor `ModelNew` is defined.
    NoClass,
    /// A hard source rule was broken.
    Guardrail,
    /// The candidate's own kernels do not contribute to its output.
    FakeKernel,
    /// A framework operator computed, under a contract that wants own kernels only.
    FrameworkOperator,
    /// The time measured inside is shorter than the time measured outside allows.
    Clock,
    /// Slower on inputs it has never seen than on those it has.
    Caching,
    /// Faster than the device can move the bytes that decide the output.
    Floor,
    // compilation_failure
    /// The compiler reported an error.
    Compiler,
    /// A compiler flag that is not allowed.
    Flag,
    /// The toolchain needed longer than its limit.
    BuildTimeout,
    // runtime_error
    /// Importing the candidate raised.
    Import,
    /// Constructing the module raised.
    Construct,
    /// `forward` does not take the problem's inputs.
    Signature,
    /// `forward` or `prepare` raised.
    Exception,
    /// A launcher returned an error code.
    Launch,
    /// Killed by a signal (segmentation fault, abort, ...).
    Crash,
    /// The process ended by itself.
    Exit,
    /// No answer within the time limit.
    Timeout,
    /// Over the memory limit.
    OutOfMemory,
    /// Over the process limit.
    ProcessLimit,
    /// Over the disk limit of its scratch folder.
    DiskLimit,
    /// The sandbox refused something that the candidate asked for.
    Sandbox,
    /// Its process answered with something that is not an answer.
    Protocol,
    /// A memory or race checker found an error in its kernels.
    Sanitizer,
    // mismatch
    /// Not a plain tensor (a subclass, a lazy object, a number).
    Type,
    /// Another number or nesting of outputs.
    Structure,
    /// Wrong shape.
    Shape,
    /// Wrong dtype.
    Dtype,
    /// On the wrong device.
    Device,
    /// Memory of the output overlaps itself.
    Strides,
    /// The output shares memory with an input.
    Alias,
    /// Values outside the tolerance.
    Numeric,
    /// NaN or infinity where the truth has none, or the reverse.
    NonFinite,
    /// An integer output differs.
    Integer,
    /// Errors as large as those of a lower multiply precision than the contract allows.
    Precision,
    /// Two runs on the same input differ by more than the contract allows.
    Nondeterministic,
    /// An input was written to.
    InputMutated,
    /// The output changed after it had been handed over.
    LateWrite,
    // correct
    /// Correct, but no kernel of its own ran: framework operators only.
    FrameworkOnly,
}

impl Kind {
    /// The state that this kind belongs to.
    #[must_use]
    pub fn state(self) -> State {
        match self {
            Self::NoReply
            | Self::Truncated
            | Self::NoCode
            | Self::Empty
            | Self::Syntax
            | Self::NoClass
            | Self::Guardrail
            | Self::FakeKernel
            | Self::FrameworkOperator
            | Self::Clock
            | Self::Caching
            | Self::Floor => State::GenerationFailure,
            Self::Compiler | Self::Flag | Self::BuildTimeout => State::CompilationFailure,
            Self::Import
            | Self::Construct
            | Self::Signature
            | Self::Exception
            | Self::Launch
            | Self::Crash
            | Self::Exit
            | Self::Timeout
            | Self::OutOfMemory
            | Self::ProcessLimit
            | Self::DiskLimit
            | Self::Sandbox
            | Self::Protocol
            | Self::Sanitizer => State::RuntimeError,
            Self::Type
            | Self::Structure
            | Self::Shape
            | Self::Dtype
            | Self::Device
            | Self::Strides
            | Self::Alias
            | Self::Numeric
            | Self::NonFinite
            | Self::Integer
            | Self::Precision
            | Self::Nondeterministic
            | Self::InputMutated
            | Self::LateWrite => State::Mismatch,
            Self::FrameworkOnly => State::Correct,
        }
    }

    /// The kind with this wire name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        serde_json::from_value(serde_json::Value::String(name.to_owned())).ok()
    }

    /// The wire name.
    #[must_use]
    pub fn name(self) -> String {
        match serde_json::to_value(self) {
            Ok(serde_json::Value::String(name)) => name,
            _ => String::new(),
        }
    }
}

/// What a result rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Evidence {
    /// Verified and timed on the target's device.
    Measured,
    /// Outputs verified, nothing timed.
    CorrectOnly,
    /// Compiled, never run.
    Compiled,
    /// Parsed, never compiled.
    Syntax,
}

/// State, sub-kind and the digest of the cause.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Verdict {
    /// One of the six states.
    pub state: State,
    /// Sub-kind; a plain correct candidate has none, nor has one that was only compiled.
    pub kind: Option<Kind>,
    /// What a person or a model can act on.
    pub reason: String,
}

impl Verdict {
    /// The verdict that a sub-kind stands for.
    pub fn of(kind: Kind, reason: impl Into<String>) -> Self {
        Self { state: kind.state(), kind: Some(kind), reason: reason.into() }
    }

    /// The good case.
    #[must_use]
    pub fn correct() -> Self {
        Self { state: State::Correct, kind: None, reason: String::new() }
    }

    /// Compiled and nothing more; `reason` says why it was not run.
    pub fn compiled(reason: impl Into<String>) -> Self {
        Self { state: State::Compiled, kind: None, reason: reason.into() }
    }
}
