//! Running the binary and reading its answers.

use serde_json::Value;
use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::atomic::{AtomicUsize, Ordering},
};

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The binary with a cache and settings of the tests' own. Secrets are set, so that a leak would show.
pub(crate) fn kforge() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kforge"));
    command
        .current_dir(root())
        .env("KFORGE_CACHE_DIR", Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache"))
        .env("KFORGE_CONFIG_DIR", Path::new(env!("CARGO_TARGET_TMPDIR")).join("config"))
        .env("OPENAI_API_KEY", "sk-kforge-test-canary")
        .env("ANTHROPIC_API_KEY", "sk-kforge-test-canary");
    command
}

pub(crate) fn run(command: &mut Command) -> Output {
    #[allow(clippy::disallowed_methods, reason = "a test of our own binary, bounded by the test runner")]
    command.output().unwrap()
}

/// The JSON objects on stdout, one per line.
pub(crate) fn answers(output: &Output) -> Vec<Value> {
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("not JSON: {line}"))).collect()
}

pub(crate) fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// `state` or `state/kind`.
pub(crate) fn verdict(answer: &Value) -> String {
    let state = answer["state"].as_str().unwrap_or("?");
    answer["kind"].as_str().map_or_else(|| state.to_owned(), |kind| format!("{state}/{kind}"))
}

/// `key: value` lines of a file's docstring; files that are no text have none.
pub(crate) fn header(path: &Path, key: &str) -> Option<String> {
    // A file that cannot hold a docstring has its header beside it.
    let beside = path.with_extension("expect");
    let bytes = std::fs::read(if beside.exists() { &beside } else { path }).unwrap();
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(4096)]).into_owned();
    let prefix = format!("{key}:");
    let line = text.lines().map(|line| line.trim_start_matches(['#', ' '])).find(|line| line.starts_with(&prefix))?;
    Some(line[prefix.len()..].trim().to_owned())
}

/// Whether no case is named, so that everything is looked at.
pub(crate) fn all() -> bool {
    std::env::var_os("KFORGE_CASE").is_none()
}

/// By their paths in the repository; by their names, where they were made for a test.
pub(crate) fn python_files(folder: &Path) -> Vec<PathBuf> {
    let root = root();
    let known_as = |path: &Path| {
        let name = path.strip_prefix(&root).ok().map_or_else(|| path.file_name().unwrap().into(), Path::to_owned);
        name.to_string_lossy().into_owned()
    };
    let mut found: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "py"))
        .filter(|path| match std::env::var("KFORGE_CASE") {
            Ok(part) => known_as(path).contains(&part),
            Err(_) => true,
        })
        .collect();
    found.sort();
    found
}

/// Calls at once where nothing is timed, or where times decide nothing: as many as a small machine has processors, so that
/// every machine does the same. Those that time on the same processors take turns by themselves.
pub(crate) const LANES: usize = 2;

/// For lanes in which the number of threads is not what is tested: threads of several lanes would wait for each other.
pub(crate) const ONE_THREAD: &str = "--threads=1";

/// What `work` gives for each item, in their order, with so many at once; whoever is done takes the next one.
pub(crate) fn in_lanes<T: Sync, R: Send>(lanes: usize, items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let lane = || {
        let turn = || next.fetch_add(1, Ordering::Relaxed);
        std::iter::from_fn(|| Some(turn()).filter(|number| *number < items.len()))
            .map(|number| (number, work(&items[number])))
            .collect::<Vec<_>>()
    };
    let mut done: Vec<(usize, R)> = std::thread::scope(|scope| {
        let others: Vec<_> = (1..lanes).map(|_| scope.spawn(lane)).collect();
        let own = lane();
        others.into_iter().flat_map(|other| other.join().unwrap()).chain(own).collect()
    });
    done.sort_by_key(|(number, _)| *number);
    done.into_iter().map(|(_, result)| result).collect()
}
