//! Answers from what was recorded.

use super::{Exchange, INDEX, Index, MAX_FILE, drift, kept_prompt, stem};
use crate::disk::{Unusable, read_text};
use crate::support::{cancelled, failure, text_hash};
use crate::{CallError, CallErrorKind, Label, Model, Reply, Request, Watch};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Recordings lie two folders deep; deeper ones are found in collections of them.
const MAX_DEPTH: usize = 4;

/// How many recordings an error names.
const NAMED: usize = 8;

/// A model that says what was said before.
pub struct Replay {
    name: String,
    source: Source,
    /// By problem hash and target.
    sets: BTreeMap<(String, String), Set>,
    /// Index files that could not be read, with the cause.
    faults: Vec<String>,
}

/// One recorded problem on one target.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Recorded {
    /// The problem's name.
    pub problem: String,
    /// Hash of its text.
    pub problem_hash: String,
    /// `cpu/cpp`
    pub target: String,
    /// How many replies there are.
    pub replies: usize,
}

struct Set {
    problem: String,
    /// By role and ordinal, with the folder of the files.
    exchanges: BTreeMap<(String, u32), (String, Exchange)>,
}

enum Source {
    Folder(PathBuf),
    Embedded(BTreeMap<String, Cow<'static, str>>),
}

impl Source {
    fn read(&self, path: &str) -> Result<Cow<'_, str>, Unusable> {
        match self {
            Self::Folder(dir) => read_text(&dir.join(path), MAX_FILE).map(Cow::Owned),
            Self::Embedded(files) => files.get(path).map(|text| Cow::Borrowed(&**text)).ok_or(Unusable::Absent),
        }
    }
}

impl Replay {
    /// The model `replay:DIR`. The indexes are read now, prompts and replies when they are asked for.
    pub fn open(dir: impl Into<PathBuf>) -> Result<Self, CallError> {
        let dir = dir.into();
        let name = format!("replay:{}", dir.display());
        let mut indexes = Vec::new();
        find_indexes(&dir, "", MAX_DEPTH, &mut indexes).map_err(|error| {
            let text = format!("cannot read the recordings in {} ({error}): check the path", dir.display());
            failure(CallErrorKind::Setup, text)
        })?;
        Ok(Self::load(name, Source::Folder(dir), indexes))
    }

    /// The model `replay`, from files that are part of a program: paths relative to the recordings' folder, and texts.
    pub fn from_entries<P: AsRef<Path>, T: Into<Cow<'static, str>>>(entries: impl Iterator<Item = (P, T)>) -> Self {
        let path = |path: &Path| path.to_string_lossy().replace('\\', "/");
        let files: BTreeMap<_, _> = entries.map(|(at, text)| (path(at.as_ref()), text.into())).collect();
        let indexes = files.keys().filter(|path| folder_of(path).is_some()).cloned().collect();
        Self::load("replay".into(), Source::Embedded(files), indexes)
    }

    fn load(name: String, source: Source, mut indexes: Vec<String>) -> Self {
        indexes.sort_unstable();
        let mut replay = Self { name, source, sets: BTreeMap::new(), faults: Vec::new() };
        for path in indexes {
            let index = match replay.source.read(&path) {
                Ok(text) => Index::parse(&text),
                Err(Unusable::Because(why)) => Err(why),
                Err(Unusable::Absent) => continue,
            };
            match index {
                Ok(index) => replay.add(folder_of(&path).unwrap_or_default(), index),
                Err(why) => replay.faults.push(format!("{path} cannot be used: {why}")),
            }
        }
        replay
    }

    fn add(&mut self, folder: &str, index: Index) {
        let key = (index.problem_hash, index.target);
        let set = self.sets.entry(key).or_insert_with(|| Set { problem: index.problem, exchanges: BTreeMap::new() });
        for exchange in index.exchanges {
            set.exchanges.insert((exchange.role.clone(), exchange.ordinal), (folder.to_owned(), exchange));
        }
    }

    /// Another name than the folder's.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Whether there is any reply for this problem on this target.
    #[must_use]
    pub fn has(&self, problem_hash: &str, target: &str) -> bool {
        self.problems().iter().any(|known| known.problem_hash == problem_hash && known.target == target)
    }

    /// How many replies of one role there are.
    #[must_use]
    pub fn replies(&self, problem_hash: &str, target: &str, role: &str) -> u32 {
        let key = (problem_hash.to_owned(), target.to_owned());
        self.sets.get(&key).map_or(0, |set| set.exchanges.keys().filter(|(of, _)| of == role).count() as u32)
    }

    /// All that is recorded, by problem and target.
    #[must_use]
    pub fn problems(&self) -> Vec<Recorded> {
        let sets = self.sets.iter().filter(|(_, set)| !set.exchanges.is_empty());
        let mut problems: Vec<Recorded> = sets
            .map(|((problem_hash, target), set)| Recorded {
                problem: set.problem.clone(),
                problem_hash: problem_hash.clone(),
                target: target.clone(),
                replies: set.exchanges.len(),
            })
            .collect();
        problems.sort_unstable();
        problems
    }

    /// Why there is no reply, with what there is instead.
    fn missing(&self, label: &Label) -> CallError {
        let (problem, target) = (&label.problem, &label.target);
        let known = self.problems();
        let same_text: Vec<&Recorded> = known.iter().filter(|known| known.problem_hash == label.problem_hash).collect();
        let set = self.sets.get(&(label.problem_hash.clone(), target.clone())).filter(|set| !set.exchanges.is_empty());
        let why = if let Some(set) = set {
            let (role, ordinal, there) = (&label.role, label.ordinal, ordinals(set));
            format!(
                "{role} {ordinal} of {problem} on {target} is not recorded; there are {there}: end after fewer iterations"
            )
        } else if !same_text.is_empty() {
            let targets: Vec<&str> = same_text.iter().map(|known| known.target.as_str()).collect();
            format!("{problem} is not recorded on {target}, but on {}: choose that target", targets.join(", "))
        } else if known.iter().any(|known| known.problem == *problem) {
            format!("{problem} is recorded with another text, whose hash differs: take the problem as it was")
        } else if known.is_empty() {
            format!("{} has no recordings: record some first", self.name)
        } else {
            format!("{problem} is not recorded; there are {}: choose one of them", listed(&known))
        };
        let fault = self.faults.first().map(|fault| format!(" ({fault})")).unwrap_or_default();
        failure(CallErrorKind::NoRecording, format!("{why}, or use a model that answers{fault}"))
    }

    /// What a person should know of a replayed reply.
    fn notes(&self, request: &Request, folder: &str, exchange: &Exchange) -> String {
        let day = exchange.date.get(..10).unwrap_or(&exchange.date);
        let who = format!("recorded reply (of {}, {day})", exchange.answered_by);
        let today = kept_prompt(request);
        if text_hash(&today) == exchange.prompt_hash {
            return format!("{who}; today's prompt is the recorded one");
        }
        let path = join(folder, &format!("{}.prompt.md", stem(&exchange.role, exchange.ordinal)));
        let Ok(recorded) = self.source.read(&path) else {
            return format!("{who}; today's prompt differs, and the recorded one was not kept");
        };
        match drift(&recorded, &today) {
            0.0 => format!("{who}; today's prompt differs from the recorded one in numbers only"),
            share if share < 0.01 => {
                format!("{who}; today's prompt differs from the recorded one in less than 1 % of its lines")
            }
            share => format!(
                "{who}; today's prompt differs from the recorded one in {:.0} % of its lines",
                (100.0 * share).round()
            ),
        }
    }
}

impl Model for Replay {
    fn name(&self) -> &str {
        &self.name
    }

    fn ask(&self, request: &Request, watch: &dyn Watch) -> Result<Reply, CallError> {
        if watch.cancelled() {
            return Err(cancelled("the replay"));
        }
        let label = &request.label;
        let set = self.sets.get(&(label.problem_hash.clone(), label.target.clone()));
        let exchange = set.and_then(|set| set.exchanges.get(&(label.role.clone(), label.ordinal)));
        let Some((folder, exchange)) = exchange else { return Err(self.missing(label)) };
        let path = join(folder, &format!("{}.reply.md", stem(&label.role, label.ordinal)));
        let text = self.source.read(&path).map_err(|why| {
            let why = match why {
                Unusable::Absent => "is not there".to_owned(),
                Unusable::Because(why) => why,
            };
            let text = format!("the recorded reply {path} {why}: restore the file, or record again");
            failure(CallErrorKind::NoRecording, text)
        })?;
        watch.received(text.chars().count());
        Ok(Reply {
            text: text.into_owned(),
            model: exchange.answered_by.clone(),
            stop: exchange.stop,
            usage: exchange.usage,
            // Known: nobody is paid for a recording.
            cost_usd: Some(0.0),
            seconds: 0.0,
            attempts: 1,
            notes: vec![self.notes(request, folder, exchange)],
        })
    }
}

/// The first few by name.
fn listed(known: &[Recorded]) -> String {
    let names: Vec<_> = known.iter().take(NAMED).map(|known| format!("{} ({})", known.problem, known.target)).collect();
    let more = known.len().saturating_sub(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", names.join(", "))
}

/// `analyst 1 and generator 1, 2, 3`
fn ordinals(set: &Set) -> String {
    let mut roles: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (role, ordinal) in set.exchanges.keys() {
        roles.entry(role).or_default().push(ordinal.to_string());
    }
    let roles: Vec<_> = roles.iter().map(|(role, ordinals)| format!("{role} {}", ordinals.join(", "))).collect();
    roles.join(" and ")
}

fn join(folder: &str, file: &str) -> String {
    if folder.is_empty() { file.to_owned() } else { format!("{folder}/{file}") }
}

/// The folder of an index file; `None` for other files.
fn folder_of(path: &str) -> Option<&str> {
    let (folder, file) = path.rsplit_once('/').unwrap_or(("", path));
    (file == INDEX).then_some(folder)
}

/// Index files below `dir`, as paths relative to it. Links and hidden folders are passed by.
fn find_indexes(dir: &Path, at: &str, depth: usize, found: &mut Vec<String>) -> std::io::Result<()> {
    for entry in fs::read_dir(dir.join(at))? {
        let entry = entry?;
        let name = entry.file_name();
        let Some(name) = name.to_str().filter(|name| !name.starts_with('.')) else { continue };
        let kind = entry.file_type()?;
        if kind.is_dir() && depth > 0 {
            // A folder that cannot be listed holds nothing that can be read.
            let _ = find_indexes(dir, &join(at, name), depth - 1, found);
        } else if name == INDEX && kind.is_file() {
            found.push(join(at, name));
        }
    }
    Ok(())
}
