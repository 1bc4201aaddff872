//! The trusted Python process that knows the problem, seen from here.

use crate::{
    channel::{Channel, soon},
    claims::Claim,
    device::{Device, Place},
    error::{ExecError, Result},
    failure::Tried,
    judge::arm::{Given, Side},
    memory::{Sealed, Shared, StoredFile},
    slots::Slots,
    wire::{
        messages::{Ask, Done, Inputs},
        names,
    },
    zygote::Zygote,
};
use kforge_types::{Contract, Kind, ProblemReport, Verdict};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Value};
use std::{
    collections::BTreeMap,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::{Path, PathBuf},
    rc::{Rc, Weak},
};

/// What the referee says of an opened problem.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Opened {
    /// With every default filled in.
    pub(crate) contract: Contract,
    pub(crate) key: String,
    folder: PathBuf,
    pub(crate) report: ProblemReport,
    pub(crate) variants: Vec<Map<String, Value>>,
    pub(crate) distributions: Vec<String>,
    /// In which the framework runs the reference under its contract, without its compiler.
    pub(crate) ways: Vec<String>,
    pub(crate) input_bytes: usize,
    pub(crate) output_bytes: usize,
    /// Whether the reference writes into inputs or buffers.
    pub(crate) writes: bool,
    /// Bytes of a set that no call may change.
    held: Vec<(usize, usize)>,
    /// Whether inputs differ from one draw to the next.
    pub(crate) varies: bool,
    pub(crate) search_path: Vec<PathBuf>,
    pub(crate) precision: Precision,
}

/// Whether the contract's precision is told from the next lower one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Precision {
    Proven,
    Unproven,
    /// There is nothing to compute in lower precision.
    NotApplicable,
}

/// What the referee found when it copied results.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Taken {
    pub(crate) ended_ns: u64,
    #[serde(deserialize_with = "names::found")]
    pub(crate) kind: Option<Kind>,
    pub(crate) text: String,
}

/// And when it looked at the memory that they lie in.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Stamped {
    /// Whether a result reaches memory that another one still needs.
    pub(crate) reuses: bool,
    #[serde(deserialize_with = "names::found")]
    pub(crate) kind: Option<Kind>,
    pub(crate) text: String,
}

/// How the results of a row compare, the candidate's with truths or with the baseline's.
#[derive(Debug, Deserialize)]
pub(crate) struct ComparedRow {
    #[serde(flatten)]
    pub(crate) candidate: Compared,
    /// What is wrong with the baseline's; empty where nothing is.
    baseline: String,
}

impl ComparedRow {
    /// The candidate's, where both are right.
    pub(crate) fn passed(self) -> Tried<Compared> {
        let candidate = self.candidate.passed()?;
        if self.baseline.is_empty() { Ok(candidate) } else { Err(ExecError::baseline(self.baseline).into()) }
    }
}

/// One set of inputs in the store. It is mapped for the moment it is needed: twenty of them would be resident otherwise.
pub(crate) struct InputSet {
    pub(crate) id: String,
    file: PathBuf,
    /// Bytes that no call may change.
    held: Vec<(usize, usize)>,
}

impl InputSet {
    /// Writes the inputs into a cell's slot.
    pub(crate) fn reveal(&self, slot: &mut [u8]) -> Result<()> {
        let stored = StoredFile::open(&self.file)?;
        slot[..stored.bytes().len()].copy_from_slice(stored.bytes());
        Ok(())
    }

    /// Whether a slot still holds these inputs, in the ranges that must not change.
    pub(crate) fn is_in(&self, slot: &[u8]) -> Result<bool> {
        let stored = StoredFile::open(&self.file)?;
        Ok(self.held.iter().all(|(start, end)| slot.get(*start..*end) == stored.bytes().get(*start..*end)))
    }
}

/// How an output compares with the truth.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Compared {
    #[serde(deserialize_with = "names::found")]
    pub(crate) kind: Option<Kind>,
    pub(crate) text: String,
    pub(crate) error: f64,
    /// Whether a second run on the same input gave the same bits.
    #[serde(default)]
    pub(crate) repeated: bool,
}

impl Compared {
    /// Itself where it is right.
    pub(crate) fn passed(self) -> std::result::Result<Self, Verdict> {
        match self.kind {
            None => Ok(self),
            Some(kind) => Err(Verdict::of(kind, self.text)),
        }
    }
}

/// Whether an output is one of two runs on the same input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Repeat {
    No,
    First,
    Again,
}

/// How a problem is opened.
pub(crate) struct OpenRequest<'a> {
    pub(crate) path: &'a Path,
    pub(crate) contract: &'a Contract,
    pub(crate) store: &'a Path,
    pub(crate) fresh: bool,
    pub(crate) reduced: bool,
    pub(crate) threads: usize,
    pub(crate) limit_s: u64,
    pub(crate) place: &'a Place,
    pub(crate) device: &'a dyn Device,
}

pub(crate) struct Referee {
    channel: Channel,
    /// Private copies of results, which no cell ever sees: the candidate's, then the baseline's. On a device the referee
    /// itself keeps them.
    output: Option<Shared>,
    output_bytes: usize,
    places: usize,
    /// The inputs that were drawn last, as they lie in a slot.
    stage: Option<Shared>,
    held: Vec<(usize, usize)>,
    weights: Option<Rc<Vec<Sealed>>>,
    store: PathBuf,
    /// Sets that are drawn for this session alone; removed with it.
    _session_store: tempfile::TempDir,
    pub(crate) precision: Precision,
    /// Whether no change to a part of the inputs shows in the outputs.
    pub(crate) unmoved: bool,
    sets: BTreeMap<(usize, String, usize), Rc<InputSet>>,
    /// On a device: slots that were made, by name, and whether a cell still has them.
    lanes: Vec<(u64, Weak<OwnedFd>)>,
    limit_s: u64,
}

/// A referee that has read the problem.
pub(crate) struct Loaded {
    channel: Channel,
    contract: Contract,
}

impl Loaded {
    /// The share of the device's memory that judging the problem holds at its worst, by a look at its sizes.
    pub(crate) fn needed_share(&mut self, limit_s: u64) -> Result<f64> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Look {
            needed_bytes: f64,
            memory_bytes: f64,
        }
        let message = Ask::Look { contract: &self.contract };
        let look: Look = ask(&mut self.channel, &message, &[], limit_s, "looking at the problem's sizes")?;
        Ok(look.needed_bytes / look.memory_bytes.max(1.0))
    }
}

impl Referee {
    pub(crate) fn load(zygote: &mut Zygote, request: &OpenRequest<'_>) -> Result<Loaded> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Declared {
            contract: Value,
        }
        let mut channel = zygote.fork_referee(request.threads, request.place)?;
        let load = Ask::Load { path: request.path };
        let declared: Declared = ask(&mut channel, &load, &[], request.limit_s, "loading the problem")?;
        let declared = Contract::from_json(&declared.contract.to_string())
            .map_err(|error| ExecError::Problem(format!("{error}; its keys are described in `kforge eval --help`")))?;
        Ok(Loaded { channel, contract: request.contract.clone().over(declared) })
    }

    pub(crate) fn open(loaded: Loaded, request: &OpenRequest<'_>) -> Result<(Self, Opened)> {
        let Loaded { mut channel, contract } = loaded;
        let session_store = session_folder(request.store)?;
        let mut secret = [0; 32];
        crate::cell::fill_random(&mut secret)?;
        let secret = kforge_types::hex(&secret);
        let message = Ask::Open {
            contract: &contract,
            store: request.store,
            session_store: session_store.path(),
            secret: &secret,
            fresh: request.fresh,
            reduced: request.reduced,
        };
        let opened: Opened = ask(&mut channel, &message, &[], request.limit_s, "examining the problem")?;
        names::all_known(&opened.distributions, &opened.ways)?;
        let (mut output, mut stage) = (None, None);
        let places = request.device.places_here(&opened).unwrap_or_default();
        if places > 0 {
            let private = Shared::new("kforge-private", 2 * places * opened.output_bytes)?;
            let staged = Shared::new("kforge-stage", places * opened.input_stride())?;
            let attach = Ask::Attach { places, input_stride: opened.input_stride() };
            let fds = [private.fd(), staged.fd()];
            let _: Done = ask(&mut channel, &attach, &fds, request.limit_s, "examining the problem")?;
            (output, stage) = (Some(private), Some(staged));
        }
        let store = opened.folder.clone();
        Ok((
            Self {
                channel,
                output,
                output_bytes: opened.output_bytes,
                places,
                stage,
                held: opened.held.clone(),
                weights: None,
                store,
                _session_store: session_store,
                precision: opened.precision,
                unmoved: false,
                sets: BTreeMap::new(),
                lanes: Vec::new(),
                limit_s: request.limit_s,
            },
            opened,
        ))
    }

    /// Makes or finds a set of inputs with its truth.
    pub(crate) fn set(&mut self, variant: usize, distribution: &str, number: usize) -> Result<Rc<InputSet>> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Made {
            id: String,
            file: PathBuf,
            held: Vec<(usize, usize)>,
            precision: Precision,
            unmoved: bool,
        }
        let key = (variant, distribution.to_owned(), number);
        if let Some(found) = self.sets.get(&key) {
            return Ok(Rc::clone(found));
        }
        let message = Ask::Set { variant, distribution, number };
        let made: Made = ask(&mut self.channel, &message, &[], self.limit_s, "computing the truth")?;
        self.precision = made.precision;
        self.unmoved = made.unmoved;
        let set = Rc::new(InputSet { id: made.id, file: made.file, held: made.held });
        self.sets.insert(key, Rc::clone(&set));
        Ok(set)
    }

    /// The weights of every variant, copied once.
    pub(crate) fn weights(&mut self, opened: &Opened) -> Result<Rc<Vec<Sealed>>> {
        if let Some(made) = &self.weights {
            return Ok(Rc::clone(made));
        }
        let file = |variant: &Map<String, Value>| {
            let name = variant.get("weights_file").and_then(Value::as_str).unwrap_or_default();
            Sealed::copy_of(&self.store.join(name))
        };
        let made = Rc::new(opened.variants.iter().map(file).collect::<Result<Vec<_>>>()?);
        self.weights = Some(Rc::clone(&made));
        Ok(made)
    }

    /// Where a copy of one call's results belongs.
    pub(crate) fn private_output(&mut self, side: Side, place: usize) -> Result<&mut [u8]> {
        let at = (side as usize * self.places + place) * self.output_bytes;
        let output = self.output.as_mut().ok_or_else(|| ExecError::harness("this output lies on a device"))?;
        Ok(&mut output.bytes_mut()[at..at + self.output_bytes])
    }

    /// The inputs that were drawn last.
    pub(crate) fn staged(&self) -> Result<&[u8]> {
        self.stage.as_ref().map(Shared::bytes).ok_or_else(|| ExecError::harness("these inputs lie on a device"))
    }

    /// Bytes of a set for timed calls that none of them may change.
    pub(crate) fn held(&self) -> &[(usize, usize)] {
        &self.held
    }

    /// Draws sets that nobody has ever seen, for one row; some of them with a truth.
    pub(crate) fn draw(&mut self, distribution: &str, truths: &[bool]) -> Result<()> {
        let message = Ask::Draw { distribution, truths };
        let _: Done = ask(&mut self.channel, &message, &[], self.limit_s, "drawing inputs")?;
        Ok(())
    }

    /// Compares the results of the row that was drawn last: with truths where there are some, else with the baseline's.
    pub(crate) fn compare_row(&mut self, calls: usize, with_baseline: bool) -> Result<ComparedRow> {
        let message = Ask::CompareRow { calls, with_baseline };
        ask(&mut self.channel, &message, &[], self.limit_s, "comparing outputs")
    }

    /// Compares the private copy of an output with the truth of `set`, and with an earlier run where asked to.
    pub(crate) fn compare(&mut self, set: &InputSet, side: Side, repeat: Repeat) -> Result<Compared> {
        let (remember, again) = (matches!(repeat, Repeat::First), matches!(repeat, Repeat::Again));
        let message = Ask::Compare { id: &set.id, side: side as usize, remember, again };
        ask(&mut self.channel, &message, &[], self.limit_s, "comparing an output")
    }

    // On a device: the referee lays inputs and takes outputs itself.

    /// Memory of slots that nobody has any more goes back to the device first.
    pub(crate) fn make_lane(&mut self) -> Result<Slots> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Made {
            lane: u64,
        }
        let gone = forgotten(&mut self.lanes);
        self.channel.send(&Ask::Lane { gone: &gone }, &[])?;
        let (answer, mut fds): (Value, Vec<OwnedFd>) = self.channel.receive_with_fds(soon(self.limit_s))?;
        let Made { lane } = understood(answer)?;
        match (fds.pop(), fds.pop()) {
            (Some(output), Some(input)) => {
                let (input, output) = (Rc::new(input), Rc::new(output));
                self.lanes.push((lane, Rc::downgrade(&input)));
                Ok(Slots::Device { lane, input, output })
            }
            _ => Err(ExecError::harness("memory of the device did not arrive")),
        }
    }

    /// Copies the inputs of `set` to shared memory, from wherever they lie.
    pub(crate) fn copy_inputs(&mut self, set: &InputSet, into: &mut Shared) -> Result<()> {
        if !set.file.as_os_str().is_empty() {
            return set.reveal(into.bytes_mut());
        }
        let message = Ask::Export { id: &set.id };
        let _: Done = ask(&mut self.channel, &message, &[into.fd()], self.limit_s, "working on the device")?;
        Ok(())
    }

    /// Inputs in place for calls on an idle device; when that began, on the machine's clock.
    pub(crate) fn lay(&mut self, lane: u64, given: Given<'_>, cold: bool) -> Result<u64> {
        self.inputs_at(&Ask::Lay { lane, cold, inputs: inputs(given) })
    }

    /// From now on launches of this lane's cell wait, and `count` of its places are empty.
    pub(crate) fn shut(&mut self, lane: u64, count: usize) -> Result<()> {
        self.at_desk(&Ask::Shut { lane, count }).map(|_| ())
    }

    /// Lays inputs and lets the launches that wait for them begin; says when it began, on the machine's clock.
    pub(crate) fn reveal(&mut self, lane: u64, given: Given<'_>, cold: bool) -> Result<u64> {
        self.inputs_at(&Ask::Reveal { lane, cold, inputs: inputs(given) })
    }

    fn inputs_at(&mut self, message: &Ask<'_>) -> Result<u64> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Revealed {
            began_ns: u64,
        }
        let Revealed { began_ns } = ask(&mut self.channel, message, &[], self.limit_s, "working on the device")?;
        Ok(began_ns)
    }

    /// Copies results out of a cell's memory on the device.
    pub(crate) fn take(
        &mut self,
        lane: u64,
        cell: u64,
        side: Side,
        variant: usize,
        calls: &[Vec<Claim>],
        segments: &[(u64, OwnedFd)],
    ) -> Result<Taken> {
        let sizes: Vec<u64> = segments.iter().map(|(size, _)| *size).collect();
        let files: Vec<BorrowedFd<'_>> = segments.iter().map(|(_, file)| file.as_fd()).collect();
        let message = Ask::Take { lane, cell, side: side as usize, variant, calls, segments: &sizes };
        ask(&mut self.channel, &message, &files, self.limit_s, "working on the device")
    }

    /// Looks at the memory that results were taken from, and fills it with a pattern where asked to.
    pub(crate) fn stamp(&mut self, lane: u64, fill: bool) -> Result<Stamped> {
        let message = Ask::Stamp { lane, fill };
        ask(&mut self.channel, &message, &[], self.limit_s, "working on the device")
    }

    /// What was taken last from this lane must stay filled.
    pub(crate) fn hold(&mut self, lane: u64) -> Result<()> {
        self.at_desk(&Ask::Hold { lane }).map(|_| ())
    }

    pub(crate) fn held_are_intact(&mut self, lane: u64) -> Result<bool> {
        self.at_desk(&Ask::Held { lane })
    }

    pub(crate) fn left_are_intact(&mut self, lane: u64) -> Result<bool> {
        self.at_desk(&Ask::Left { lane })
    }

    pub(crate) fn unchanged(&mut self, lane: u64, given: Given<'_>) -> Result<bool> {
        self.at_desk(&Ask::Unchanged { lane, inputs: inputs(given) })
    }

    pub(crate) fn wipe(&mut self, lane: u64) -> Result<()> {
        self.at_desk(&Ask::Wipe { lane }).map(|_| ())
    }

    /// Whether the device still answers, within `limit_s` seconds.
    pub(crate) fn device_answers(&mut self, limit_s: u64) -> bool {
        let asked: Result<Done> = ask(&mut self.channel, &Ask::Alive, &[], limit_s, "asking the device");
        asked.is_ok()
    }

    pub(crate) fn device<T: DeserializeOwned>(&mut self) -> Result<T> {
        ask(&mut self.channel, &Ask::Device, &[], self.limit_s, "asking the device")
    }

    fn at_desk(&mut self, message: &Ask<'_>) -> Result<bool> {
        let Done { done } = ask(&mut self.channel, message, &[], self.limit_s, "working on the device")?;
        Ok(done)
    }
}

/// The names of those that are gone, which are then no longer on the list.
fn forgotten<T>(lanes: &mut Vec<(u64, Weak<T>)>) -> Vec<u64> {
    let (here, gone): (Vec<_>, Vec<_>) =
        std::mem::take(lanes).into_iter().partition(|(_, slots)| slots.strong_count() > 0);
    *lanes = here;
    gone.into_iter().map(|(name, _)| name).collect()
}

fn inputs(given: Given<'_>) -> Inputs<'_> {
    match given {
        Given::Stored(set) => Inputs::Id(&set.id),
        // Laying inputs is a part of what asking takes.
        Given::Fresh(calls) | Given::Null(calls) => Inputs::Fresh(calls),
    }
}

/// A private folder for one session; those that a killed session left behind a day ago are removed.
fn session_folder(store: &Path) -> Result<tempfile::TempDir> {
    const PREFIX: &str = "session-";
    let failed = || ExecError::io(format!("cannot use the cache folder {}", store.display()));
    std::fs::create_dir_all(store).map_err(failed())?;
    for entry in std::fs::read_dir(store).map_err(failed())?.flatten() {
        let old = entry.metadata().and_then(|found| found.modified()).ok().and_then(|time| time.elapsed().ok());
        let is_session = entry.file_name().to_string_lossy().starts_with(PREFIX);
        if is_session && old.is_some_and(|age| age > std::time::Duration::from_hours(24)) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
    tempfile::Builder::new().prefix(PREFIX).tempdir_in(store).map_err(failed())
}

fn ask<T: DeserializeOwned>(
    channel: &mut Channel,
    message: &Ask<'_>,
    fds: &[BorrowedFd<'_>],
    limit_s: u64,
    what: &str,
) -> Result<T> {
    channel.send(message, fds)?;
    let ended = |_| {
        ExecError::Problem(format!(
            "{what}: the process that runs the reference ended; does the problem crash or call exit, or is the machine out \
             of memory or disk space?"
        ))
    };
    let answer: Value = channel.receive(soon(limit_s)).map_err(ended)?.ok_or_else(|| {
        ExecError::Problem(format!(
            "{what} took more than {limit_s} s: make the problem smaller, or raise the limit with --problem-timeout"
        ))
    })?;
    understood(answer)
}

fn understood<T: DeserializeOwned>(answer: Value) -> Result<T> {
    if let Some(text) = answer.get("problem_error").and_then(Value::as_str) {
        let of_memory = answer.get("no_room").and_then(Value::as_bool).unwrap_or_default();
        return Err(if of_memory { ExecError::NoRoom } else { ExecError::Problem }(text.to_owned()));
    }
    if let Some(text) = answer.get("internal_error").and_then(Value::as_str) {
        return Err(ExecError::harness(text));
    }
    serde_json::from_value(answer).map_err(ExecError::harness)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_that_nobody_has_are_named_once() {
        let (kept, dropped) = (Rc::new(()), Rc::new(()));
        let shared = Rc::clone(&kept);
        let mut lanes = vec![(3, Rc::downgrade(&kept)), (4, Rc::downgrade(&dropped))];
        drop((kept, dropped));
        assert_eq!(forgotten(&mut lanes), [4]);
        assert_eq!(forgotten(&mut lanes), [0; 0]);
        drop(shared);
        assert_eq!(forgotten(&mut lanes), [3]);
    }
}
