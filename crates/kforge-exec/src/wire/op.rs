//! What a cell can be asked for. Each request is a type, with the number that comes with it and the answer to it.

use super::NULL_ROW;

/// A time that a cell claims is none beyond a month, and a count none beyond 32 bits.
const LONGEST_NS: u64 = 31 * 24 * 3600 * 1_000_000_000;
const MOST: u64 = u32::MAX as u64;

/// One request.
pub(crate) trait Request: Copy {
    const OP: Op;
    type Answer: Answer;

    fn argument(self) -> u64;
}

/// The numbers of a good answer: claims from inside.
pub(crate) trait Answer: Sized {
    /// Nothing where one of them cannot be.
    fn read(numbers: [u64; 3]) -> Option<Self>;
}

/// What goes into the number of a request.
trait Argument: Copy {
    fn number(self) -> u64;
}

impl Argument for u64 {
    fn number(self) -> u64 {
        self
    }
}

impl Argument for bool {
    fn number(self) -> u64 {
        u64::from(self)
    }
}

/// Calls that a row will have. With `null` nothing will be called, which shows what asking takes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Calls {
    pub(crate) count: u64,
    pub(crate) null: bool,
}

impl Argument for Calls {
    fn number(self) -> u64 {
        self.count | if self.null { NULL_ROW } else { 0 }
    }
}

/// What an inspector is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Look {
    /// Of the compiler, on what was built.
    Report = 0,
    Disassemble = 1,
    /// Of a vendor's tool.
    Start = 2,
    /// And its end.
    Collect = 3,
    /// Names and resources of kernels for a GPU: a moment.
    Resources = 4,
    /// Their instructions.
    Sass = 5,
}

impl Argument for Look {
    fn number(self) -> u64 {
        self as u64
    }
}

macro_rules! answers {
    ($($(#[$doc:meta])* $name:ident { $($(#[$of_field:meta])* $field:ident <= $most:expr),* })*) => {
        $(
            $(#[$doc])*
            #[derive(Debug, Clone, Copy, PartialEq, Eq)]
            pub(crate) struct $name {
                $($(#[$of_field])* pub(crate) $field: u64,)*
            }

            impl Answer for $name {
                #[allow(unused_mut, unused_variables, reason = "an answer may have no numbers")]
                fn read(numbers: [u64; 3]) -> Option<Self> {
                    let mut numbers = numbers.into_iter();
                    let answer = Self { $($field: numbers.next().filter(|number| *number <= $most)?,)* };
                    numbers.all(|number| number == 0).then_some(answer)
                }
            }

            #[cfg(test)]
            impl $name {
                pub(super) const FIELDS: &'static [&'static str] = &[$(stringify!($field)),*];
            }
        )*
    };
}

answers! {
    /// Nothing but that.
    Done {}
    Constructed {
        prepare_ns <= LONGEST_NS,
        /// Weights of the reference that found no place.
        unplaced <= MOST
    }
    Ran { inside_ns <= LONGEST_NS, launching_ns <= LONGEST_NS }
    Queued { launching_ns <= LONGEST_NS }
    Collected { inside_ns <= LONGEST_NS }
    Audited {
        inside_ns <= LONGEST_NS,
        /// Of its own kernels.
        launches <= MOST,
        /// Of the framework's operators.
        operators_ns <= LONGEST_NS
    }
    Replayed {
        /// Of one replay.
        replay_ns <= LONGEST_NS
    }
    Inspected {
        /// Bytes of the JSON in the output region.
        length <= MOST
    }
    Kept { launches <= MOST }
    Compiled {
        kernels <= MOST,
        /// That could not be checked.
        unchecked <= MOST
    }
}

macro_rules! requests {
    (@argument) => { None };
    (@argument $argument:ident) => { Some(stringify!($argument)) };
    ($($(#[$doc:meta])* $name:ident $(($argument:ident: $type:ty))? = $code:literal => $answer:ident;)*) => {
        /// The operations by their numbers.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u32)]
        pub(crate) enum Op {
            $($name = $code,)*
        }

        $(
            $(#[$doc])*
            #[derive(Debug, Clone, Copy)]
            pub(crate) struct $name $((pub(crate) $type))?;

            impl Request for $name {
                const OP: Op = Op::$name;
                type Answer = $answer;

                fn argument(self) -> u64 {
                    let numbers: &[u64] = &[$({
                        let Self($argument) = self;
                        $argument.number()
                    })?];
                    numbers.first().copied().unwrap_or_default()
                }
            }
        )*

        /// Name, number, name of the argument, names of the answer's numbers.
        #[cfg(test)]
        #[allow(clippy::type_complexity, reason = "a row of a table")]
        pub(super) const ALL: &[(&str, u32, Option<&str>, &str, &[&str])] = &[
            $((
                stringify!($name),
                $code,
                requests!(@argument $($argument)?),
                stringify!($answer),
                $answer::FIELDS,
            ),)*
        ];
    };
}

requests! {
    Import = 1 => Done;
    Construct(variant: u64) = 2 => Constructed;
    /// So many calls one after the other, for which it is ready.
    Row(calls: u64) = 3 => Ran;
    LoadWeights(variant: u64) = 4 => Done;
    /// One call whose operators are counted and timed.
    Audit = 5 => Audited;
    /// Threads on cores of their own, or free to go where the system puts them.
    Pin(on: bool) = 6 => Done;
    /// Before a row, outside of every clock.
    Ready(calls: Calls) = 7 => Done;
    /// The results of the last row stay for good.
    HoldResults = 8 => Done;
    /// Whether results are copied before they are left, as a part of the call.
    CopyResults(on: bool) = 9 => Done;
    /// So many calls without outputs, while a profiler looks on.
    Repeat(calls: u64) = 10 => Done;
    /// Of a baseline: operators with their times, over so many calls.
    Profile(calls: u64) = 11 => Done;
    /// Kernels on the GPU with their times, over so many calls.
    Kernels(calls: u64) = 12 => Done;
    /// On a GPU: so many replays of a call as one CUDA graph.
    Graph(calls: u64) = 13 => Replayed;
    /// On a GPU: so many calls that are launched before their inputs are there.
    Queue(calls: u64) = 14 => Queued;
    /// The end of so many calls that were queued.
    Collect(calls: u64) = 15 => Collected;
    /// Of an inspector: a report on what was built, or a step of a tool.
    Inspect(look: Look) = 16 => Inspected;
    /// Of a cell that interprets Triton: its launches, for one that compiles them.
    KeepLaunches = 17 => Kept;
    /// Of a cell that compiles for a device that is not here.
    CompileKernels = 18 => Compiled;
    /// Of a baseline: torch's compiler works, and nothing is called.
    CompileOnly = 19 => Done;
}

impl Op {
    /// What a cell was doing, for people.
    pub(crate) fn describe(self) -> &'static str {
        match self {
            Self::Import => "importing the file and building its kernels",
            Self::Construct | Self::LoadWeights => "constructing the module",
            Self::Row | Self::Audit | Self::Repeat | Self::Graph | Self::Queue | Self::Collect => "running forward",
            Self::KeepLaunches | Self::CompileKernels | Self::CompileOnly => "compiling kernels ahead of time",
            Self::Pin => "placing threads",
            Self::Ready | Self::HoldResults | Self::CopyResults => "preparing a call",
            Self::Profile => "profiling the reference",
            Self::Kernels => "profiling its kernels",
            Self::Inspect => "looking at what was built",
        }
    }
}
