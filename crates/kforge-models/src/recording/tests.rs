use super::*;
use crate::support::testing::{Ear, label, request};
use crate::{CallErrorKind, Model, Reply, Scripted, Unwatched};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;

fn scripted() -> Arc<dyn Model> {
    Arc::new(
        Scripted::new(|request, _| {
            let reply = Scripted::reply(format!("{} {}", request.label.role, request.label.ordinal));
            let usage = Usage { input: Some(100), output: Some(20), ..Usage::default() };
            Ok(Reply { model: "vendor-model-1".into(), cost_usd: Some(0.5), stop: Stop::Length, usage, ..reply })
        })
        .named("told"),
    )
}

fn record(dir: &Path, request: &Request) -> Reply {
    Recorder::new(scripted(), dir).ask(request, &Unwatched).unwrap()
}

/// All files below `dir`, relative, with their texts.
fn entries(dir: &Path) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut folders = vec![dir.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let text = fs::read_to_string(&path).unwrap();
                found.push((path.strip_prefix(dir).unwrap().to_owned(), text));
            }
        }
    }
    found.sort();
    found
}

#[test]
fn what_is_recorded_is_replayed_from_disk_and_from_memory() {
    let dir = tempfile::tempdir().unwrap();
    let first = request("generator", 1, "It takes 12.5 us.");
    assert!(record(dir.path(), &first).notes.is_empty());
    record(dir.path(), &request("analyst", 1, "Look."));
    record(dir.path(), &request("generator", 2, "Faster."));
    let files = entries(dir.path());
    let names: Vec<_> = files.iter().map(|(path, _)| path.to_str().unwrap()).collect();
    let stems = ["analyst-01", "generator-01", "generator-02"];
    let mut expected: Vec<_> = stems
        .iter()
        .flat_map(|stem| ["prompt", "reply"].map(|kind| format!("softmax/cpu-cpp/{stem}.{kind}.md")))
        .collect();
    expected.push("softmax/cpu-cpp/recording.toml".into());
    assert_eq!(names, expected);
    assert_eq!(files[2].1, "# System\n\nYou write kernels.\n\n# User\n\nIt takes 12.5 us.\n");
    for replay in [Replay::open(dir.path()).unwrap(), Replay::from_entries(files.into_iter())] {
        let reply = replay.ask(&first, &Unwatched).unwrap();
        assert_eq!(
            (reply.text.as_str(), reply.model.as_str(), reply.stop),
            ("generator 1", "vendor-model-1", Stop::Length)
        );
        assert_eq!((reply.cost_usd, reply.usage.input, reply.usage.output), (Some(0.0), Some(100), Some(20)));
        assert!(reply.notes[0].starts_with("recorded reply (of vendor-model-1, 20"), "{:?}", reply.notes);
        assert!(reply.notes[0].ends_with("today's prompt is the recorded one"), "{:?}", reply.notes);
        assert!(
            replay.has(&first.label.problem_hash, "cpu/cpp") && !replay.has(&first.label.problem_hash, "nvidia/cuda")
        );
        let known = Recorded {
            problem: "softmax".into(),
            problem_hash: first.label.problem_hash.clone(),
            target: "cpu/cpp".into(),
            replies: 3,
        };
        assert_eq!(replay.problems(), [known]);
    }
    assert!(Replay::open(dir.path()).unwrap().name().starts_with("replay:"));
}

#[test]
fn the_index_says_who_answered_and_what_it_cost() {
    let dir = tempfile::tempdir().unwrap();
    record(dir.path(), &request("generator", 1, "a"));
    // Asked again, it replaces the first.
    record(dir.path(), &request("generator", 1, "b"));
    let text = fs::read_to_string(dir.path().join("softmax/cpu-cpp/recording.toml")).unwrap();
    let index = Index::parse(&text).unwrap();
    let [exchange] = index.exchanges.as_slice() else { panic!("{text}") };
    assert_eq!((exchange.model.as_str(), exchange.answered_by.as_str()), ("told", "vendor-model-1"));
    assert_eq!((exchange.cost_usd, exchange.usage.input), (Some(0.5), Some(100)));
    assert_eq!(exchange.prompt_hash, crate::support::text_hash(&kept_prompt(&request("generator", 1, "b"))));
}

#[test]
fn drift_of_the_prompt_is_said() {
    let lines: Vec<String> =
        (0..49).map(|n| format!("line {} of the guide", ["a", "b"][n % 2].repeat(n + 1))).collect();
    let recorded = format!("{}\nIt takes 12.5 us.", lines.join("\n"));
    let dir = tempfile::tempdir().unwrap();
    record(dir.path(), &request("generator", 1, &recorded));
    let replay = Replay::open(dir.path()).unwrap();
    let note = |text: &str| replay.ask(&request("generator", 1, text), &Unwatched).unwrap().notes.concat();
    let other_numbers = recorded.replace("12.5", "1,013");
    assert!(note(&other_numbers).contains("in numbers only"), "{}", note(&other_numbers));
    let two_lines = recorded.replace("line a of", "row a of").replace("It takes", "It now takes");
    assert!(note(&two_lines).contains("differs from the recorded one in 4 % of its lines"), "{}", note(&two_lines));
    assert!(note("").contains("in 89 %"), "{}", note(""));
    fs::remove_file(dir.path().join("softmax/cpu-cpp/generator-01.prompt.md")).unwrap();
    assert!(note("").contains("was not kept"));
}

#[test]
fn numbers_are_masked_and_words_are_not() {
    assert_eq!(masked("  took 12.5 us, 1,024 rows. 3."), "took # us, # rows. #.");
    assert_eq!(masked("é1e-05ü"), "é#e-#ü");
    assert!(drift("", "").abs() < 1e-9 && (drift("a", "b") - 1.0).abs() < 1e-9);
    assert!((drift("a\na\nb", "a\nb\nb") - 1.0 / 3.0).abs() < 1e-9);
}

#[test]
fn what_is_missing_is_said_with_what_is_there() {
    let dir = tempfile::tempdir().unwrap();
    record(dir.path(), &request("generator", 1, "a"));
    record(dir.path(), &request("generator", 2, "a"));
    record(dir.path(), &request("analyst", 1, "a"));
    let replay = Replay::open(dir.path()).unwrap();
    let told = |change: &dyn Fn(&mut Label)| {
        let mut request = request("generator", 3, "a");
        change(&mut request.label);
        let error = replay.ask(&request, &Unwatched).unwrap_err();
        assert_eq!(error.kind, CallErrorKind::NoRecording);
        error.text
    };
    assert!(told(&|_| {}).contains("there are analyst 1 and generator 1, 2:"), "{}", told(&|_| {}));
    let text = told(&|label| label.target = "nvidia/cuda".into());
    assert!(text.contains("not recorded on nvidia/cuda, but on cpu/cpp"), "{text}");
    let text = told(&|label| label.problem_hash = "00".into());
    assert!(text.contains("another text"), "{text}");
    let text = told(&|label| (label.problem, label.problem_hash) = ("gelu".into(), "00".into()));
    assert!(text.contains("gelu is not recorded; there are softmax (cpu/cpp):"), "{text}");
    let nothing = Replay::from_entries(std::iter::empty::<(&str, &str)>()).named("demo");
    let error = nothing.ask(&request("generator", 1, "a"), &Unwatched).unwrap_err();
    assert!(error.text.contains("demo has no recordings") && nothing.problems().is_empty(), "{error}");
    fs::remove_file(dir.path().join("softmax/cpu-cpp/generator-01.reply.md")).unwrap();
    let error = replay.ask(&request("generator", 1, "a"), &Unwatched).unwrap_err();
    assert!(error.kind == CallErrorKind::NoRecording && error.text.contains("generator-01.reply.md"), "{error}");
}

#[test]
fn damaged_and_newer_recordings_are_said_and_never_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    let index = dir.path().join("softmax/cpu-cpp/recording.toml");
    fs::create_dir_all(index.parent().unwrap()).unwrap();
    for (text, cause) in [("version = 2\n", "has version 2"), ("version = ", "cannot be used"), ("", "version")] {
        fs::write(&index, text).unwrap();
        let replay = Replay::open(dir.path()).unwrap();
        let error = replay.ask(&request("generator", 1, "a"), &Unwatched).unwrap_err();
        assert!(error.text.contains(cause) && error.text.contains("recording.toml"), "{text}: {error}");
    }
    record(dir.path(), &request("generator", 1, "a"));
    assert_eq!(fs::read_to_string(&index).unwrap(), "");
    assert!(dir.path().join("softmax-5f2c5f2c/cpu-cpp/generator-01.reply.md").is_file());
    assert_eq!(
        Replay::open(dir.path()).unwrap().ask(&request("generator", 1, "a"), &Unwatched).unwrap().text,
        "generator 1"
    );
}

#[test]
fn problems_of_the_same_name_do_not_mix() {
    let dir = tempfile::tempdir().unwrap();
    let mut other = request("generator", 1, "a");
    other.label.problem_hash = "77".repeat(32);
    record(dir.path(), &request("generator", 1, "a"));
    record(dir.path(), &other);
    record(dir.path(), &other);
    let replay = Replay::open(dir.path()).unwrap();
    assert_eq!(replay.problems().len(), 2);
    assert!(replay.has(&other.label.problem_hash, "cpu/cpp") && replay.has(&label("x", 1).problem_hash, "cpu/cpp"));
}

#[test]
fn problems_of_the_same_name_do_not_mix_when_they_come_at_once() {
    for _ in 0..20 {
        let dir = tempfile::tempdir().unwrap();
        let recorder = Recorder::new(scripted(), dir.path());
        let both = ["5f".repeat(32), "77".repeat(32)];
        let start = std::sync::Barrier::new(both.len());
        thread::scope(|scope| {
            for hash in &both {
                let (recorder, start) = (&recorder, &start);
                scope.spawn(move || {
                    let mut request = request("generator", 1, "a");
                    request.label.problem_hash.clone_from(hash);
                    start.wait();
                    assert!(recorder.ask(&request, &Unwatched).unwrap().notes.is_empty());
                });
            }
        });
        let replay = Replay::open(dir.path()).unwrap();
        assert!(both.iter().all(|hash| replay.has(hash, "cpu/cpp")), "{:?}", replay.problems());
    }
}

#[test]
fn a_reply_that_cannot_be_kept_is_given_on() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("file"), "").unwrap();
    let reply = record(&dir.path().join("file"), &request("generator", 1, "a"));
    assert_eq!(reply.text, "generator 1");
    assert!(reply.notes[0].starts_with("not recorded: "), "{:?}", reply.notes);
    assert!(Replay::open(dir.path().join("none")).is_err_and(|error| error.kind == CallErrorKind::Setup));
}

#[test]
fn hostile_names_stay_inside_the_folder() {
    let dir = tempfile::tempdir().unwrap();
    let mut hostile = request("../../role", 1, "a");
    hostile.label.problem = "../../outside".into();
    hostile.label.target = "/etc/x".into();
    record(&dir.path().join("inner"), &hostile);
    assert!(dir.path().join("inner/outside/etc-x/role-01.reply.md").is_file());
    assert_eq!(Replay::open(dir.path().join("inner")).unwrap().ask(&hostile, &Unwatched).unwrap().text, "../../role 1");
}

#[test]
fn many_threads_record_into_one_folder() {
    let dir = tempfile::tempdir().unwrap();
    let recorder = Recorder::new(scripted(), dir.path());
    thread::scope(|scope| {
        for ordinal in 1..=12 {
            let recorder = &recorder;
            scope.spawn(move || {
                assert!(recorder.ask(&request("generator", ordinal, "a"), &Unwatched).unwrap().notes.is_empty());
            });
        }
    });
    assert_eq!(Replay::open(dir.path()).unwrap().problems()[0].replies, 12);
    assert_eq!(entries(dir.path()).len(), 25, "nothing hidden is left");
}

#[test]
fn errors_and_cancelled_calls_are_not_recorded() {
    let dir = tempfile::tempdir().unwrap();
    let broken = Scripted::sequence(vec![Err(Scripted::error(CallErrorKind::Server, "down"))]);
    let error = Recorder::new(Arc::new(broken), dir.path()).ask(&request("generator", 1, "a"), &Unwatched).unwrap_err();
    assert_eq!(error.kind, CallErrorKind::Server);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    record(dir.path(), &request("generator", 1, "a"));
    let ear = Ear::default();
    ear.stop.store(true, Ordering::Relaxed);
    let error = Replay::open(dir.path()).unwrap().ask(&request("generator", 1, "a"), &ear).unwrap_err();
    assert_eq!(error.kind, CallErrorKind::Cancelled);
}
