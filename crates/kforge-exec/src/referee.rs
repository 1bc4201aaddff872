//! The trusted Python process that knows the problem, seen from here.

use crate::{
    channel::{Channel, soon},
    error::{ExecError, Result},
    judge::place::Place,
    memory::{Sealed, Shared, StoredFile},
    slots::Slots,
    zygote::Zygote,
};
use kforge_types::{Contract, Kind, ProblemReport};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};
use std::{
    collections::BTreeMap,
    os::fd::{BorrowedFd, OwnedFd},
    path::{Path, PathBuf},
    rc::{Rc, Weak},
};

/// What the referee says of an opened problem.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Opened {
    /// With every default filled in.
    pub(crate) contract: Contract,
    pub(crate) key: String,
    folder: PathBuf,
    pub(crate) report: ProblemReport,
    pub(crate) variants: Vec<Map<String, Value>>,
    pub(crate) distributions: Vec<String>,
    pub(crate) input_bytes: usize,
    pub(crate) output_bytes: usize,
    pub(crate) mutates_inputs: bool,
    pub(crate) search_path: Vec<PathBuf>,
    pub(crate) proven: bool,
}

/// One set of inputs in the store. It is mapped for the moment it is needed: twenty of them would be resident otherwise.
pub(crate) struct InputSet {
    pub(crate) id: String,
    file: PathBuf,
}

impl InputSet {
    /// Writes the inputs into a cell's slot.
    pub(crate) fn reveal(&self, slot: &mut [u8]) -> Result<()> {
        let stored = StoredFile::open(&self.file)?;
        slot[..stored.bytes().len()].copy_from_slice(stored.bytes());
        Ok(())
    }

    /// Whether a slot still holds exactly these inputs.
    pub(crate) fn is_in(&self, slot: &[u8]) -> Result<bool> {
        let stored = StoredFile::open(&self.file)?;
        Ok(slot[..stored.bytes().len()] == *stored.bytes())
    }
}

/// How an output compares with the truth.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Compared {
    pub(crate) kind: String,
    pub(crate) text: String,
    pub(crate) error: f64,
    /// Whether a second run on the same input gave the same bits.
    #[serde(default)]
    pub(crate) repeated: bool,
}

impl Compared {
    pub(crate) fn failure(&self) -> Option<Kind> {
        (!self.kind.is_empty()).then(|| Kind::from_name(&self.kind).unwrap_or(Kind::Numeric))
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
}

pub(crate) struct Referee {
    channel: Channel,
    /// A private copy of the last output, which no cell ever sees. On a device the referee itself keeps it.
    output: Option<Shared>,
    weights: Option<Rc<Vec<Sealed>>>,
    store: PathBuf,
    /// Sets that are drawn for this session alone; removed with it.
    _session_store: tempfile::TempDir,
    /// Whether some distribution tells the contract's precision from the next lower one.
    pub(crate) proven: bool,
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
        struct Look {
            needed_bytes: f64,
            memory_bytes: f64,
        }
        let message = json!({"do": "look", "contract": self.contract});
        let look: Look = ask(&mut self.channel, &message, &[], limit_s, "looking at the problem's sizes")?;
        Ok(look.needed_bytes / look.memory_bytes.max(1.0))
    }
}

impl Referee {
    pub(crate) fn load(zygote: &mut Zygote, request: &OpenRequest<'_>) -> Result<Loaded> {
        #[derive(Deserialize)]
        struct Declared {
            contract: Value,
        }
        let mut channel = zygote.fork_referee(request.threads, request.place)?;
        let load = json!({"do": "load", "path": request.path});
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
        let message = json!({
            "do": "open", "contract": contract, "store": request.store, "session_store": session_store.path(),
            "secret": secret, "fresh": request.fresh, "reduced": request.reduced,
        });
        let opened: Opened = ask(&mut channel, &message, &[], request.limit_s, "examining the problem")?;
        let mut output = None;
        if !request.place.is_gpu() {
            let made = Shared::new("kforge-private", opened.output_bytes)?;
            let attach = json!({"do": "attach"});
            let _: Value = ask(&mut channel, &attach, &[made.fd()], request.limit_s, "examining the problem")?;
            output = Some(made);
        }
        let store = opened.folder.clone();
        let proven = opened.proven;
        Ok((
            Self {
                channel,
                output,
                weights: None,
                store,
                _session_store: session_store,
                proven,
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
        struct Made {
            id: String,
            file: PathBuf,
            proven: bool,
        }
        let key = (variant, distribution.to_owned(), number);
        if let Some(found) = self.sets.get(&key) {
            return Ok(Rc::clone(found));
        }
        let message = json!({"do": "set", "variant": variant, "distribution": distribution, "number": number});
        let made: Made = ask(&mut self.channel, &message, &[], self.limit_s, "computing the truth")?;
        self.proven = made.proven;
        let set = Rc::new(InputSet { id: made.id, file: made.file });
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

    pub(crate) fn private_output(&mut self) -> Result<&mut [u8]> {
        let output = self.output.as_mut().ok_or_else(|| ExecError::harness("this output lies on a device"))?;
        Ok(output.bytes_mut())
    }

    /// Compares the private copy of an output with the truth of `set`, and with an earlier run where asked to.
    pub(crate) fn compare(&mut self, slots: &Slots, set: &InputSet, repeat: Repeat) -> Result<Compared> {
        self.compare_place(slots, 0, set, repeat)
    }

    /// The same for one of several calls in a row.
    pub(crate) fn compare_place(
        &mut self,
        slots: &Slots,
        place: usize,
        set: &InputSet,
        repeat: Repeat,
    ) -> Result<Compared> {
        let message = json!({
            "do": "compare", "id": set.id, "lane": slots.lane(), "place": place,
            "remember": matches!(repeat, Repeat::First), "again": matches!(repeat, Repeat::Again),
        });
        ask(&mut self.channel, &message, &[], self.limit_s, "comparing an output")
    }

    // On a device: the referee lays inputs and takes outputs itself.

    /// Memory of slots that nobody has any more goes back to the device first.
    pub(crate) fn make_lane(&mut self) -> Result<Slots> {
        #[derive(Deserialize)]
        struct Made {
            lane: u64,
        }
        let gone = forgotten(&mut self.lanes);
        self.channel.send(&json!({"do": "lane", "gone": gone}), &[])?;
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
        let message = json!({"do": "export", "id": set.id});
        let _: Value = ask(&mut self.channel, &message, &[into.fd()], self.limit_s, "working on the device")?;
        Ok(())
    }

    pub(crate) fn lay(&mut self, lane: u64, set: &InputSet, cold: bool) -> Result<()> {
        self.at_desk(&json!({"do": "lay", "lane": lane, "ids": [set.id], "cold": cold})).map(|_| ())
    }

    /// From now on launches of this lane's cell wait, and `count` of its places are empty.
    pub(crate) fn shut(&mut self, lane: u64, count: usize) -> Result<()> {
        self.at_desk(&json!({"do": "shut", "lane": lane, "count": count})).map(|_| ())
    }

    /// Lays inputs and lets the launches that wait for them begin; says when it began, on the machine's clock.
    pub(crate) fn reveal(&mut self, lane: u64, sets: &[&InputSet], cold: bool) -> Result<u64> {
        #[derive(Deserialize)]
        struct Revealed {
            began_ns: u64,
        }
        let message = json!({"do": "reveal", "lane": lane, "ids": ids(sets), "cold": cold});
        let Revealed { began_ns } = ask(&mut self.channel, &message, &[], self.limit_s, "working on the device")?;
        Ok(began_ns)
    }

    pub(crate) fn take(&mut self, lane: u64, count: usize) -> Result<bool> {
        self.at_desk(&json!({"do": "take", "lane": lane, "count": count}))
    }

    pub(crate) fn unchanged(&mut self, lane: u64, sets: &[&InputSet]) -> Result<bool> {
        self.at_desk(&json!({"do": "unchanged", "lane": lane, "ids": ids(sets)}))
    }

    pub(crate) fn still_there(&mut self, slots: &Slots, count: usize) -> Result<bool> {
        self.at_desk(&json!({"do": "still_there", "lane": slots.lane(), "count": count}))
    }

    pub(crate) fn wipe(&mut self, lane: u64) -> Result<()> {
        self.at_desk(&json!({"do": "wipe", "lane": lane})).map(|_| ())
    }

    /// Whether the device still answers, within `limit_s` seconds.
    pub(crate) fn device_answers(&mut self, limit_s: u64) -> bool {
        let asked: Result<Value> = ask(&mut self.channel, &json!({"do": "alive"}), &[], limit_s, "asking the device");
        asked.is_ok()
    }

    pub(crate) fn device<T: DeserializeOwned>(&mut self) -> Result<T> {
        ask(&mut self.channel, &json!({"do": "device"}), &[], self.limit_s, "asking the device")
    }

    fn at_desk(&mut self, message: &Value) -> Result<bool> {
        #[derive(Deserialize)]
        struct Done {
            done: bool,
        }
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

fn ids<'a>(sets: &[&'a InputSet]) -> Vec<&'a str> {
    sets.iter().map(|set| set.id.as_str()).collect()
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
    message: &Value,
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
