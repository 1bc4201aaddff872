use super::*;
use crate::support::testing::{Ear, request, until};
use crate::{Image, Unwatched};
use std::os::unix::fs::symlink;
use std::sync::atomic::Ordering;
use std::thread;

fn mailbox(dir: &Path) -> Mailbox {
    Mailbox { look: Duration::from_millis(2), ..Mailbox::new(dir) }
}

/// The folders in sight, sorted.
fn letters(dir: &Path) -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = fs::read_dir(dir)
        .map(|entries| entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()).collect())
        .unwrap_or_default();
    folders.retain(|path| !path.file_name().unwrap().to_string_lossy().starts_with('.'));
    folders.sort();
    folders
}

/// As request.md says: another file first, then a rename.
fn answer(folder: &Path, text: impl AsRef<[u8]>) {
    fs::write(folder.join("reply.tmp"), text).unwrap();
    fs::rename(folder.join("reply.tmp"), folder.join(REPLY)).unwrap();
}

/// Asks in another thread, and lets `others` see the folder meanwhile.
fn asked(dir: &Path, request: &Request, ear: &Ear, others: impl FnOnce(&Path)) -> Result<Reply, CallError> {
    thread::scope(|scope| {
        let asking = scope.spawn(|| mailbox(dir).ask(request, ear));
        until(|| !letters(dir).is_empty());
        others(&letters(dir)[0]);
        asking.join().unwrap()
    })
}

#[test]
fn a_request_appears_complete_and_its_answer_comes_back() {
    let dir = tempfile::tempdir().unwrap();
    let mut request = request("generator", 1, "Write it.");
    request.images.push(Image { name: "../roof line.png".into(), media_type: "image/png".into(), bytes: vec![7; 9] });
    let ear = Ear::default();
    let reply = asked(dir.path(), &request, &ear, |folder| {
        let name = folder.file_name().unwrap().to_str().unwrap();
        assert!(name.contains("-softmax-generator-01-"), "{name}");
        let text = fs::read_to_string(folder.join("request.md")).unwrap();
        for part in ["You write kernels.", "Write it.", "image-01-roof-line.png", "mv reply.tmp reply.md", "cpu/cpp"] {
            assert!(text.contains(part), "{part} is not in {text}");
        }
        let json: serde_json::Value =
            serde_json::from_str(&fs::read_to_string(folder.join("request.json")).unwrap()).unwrap();
        assert_eq!((&json["version"], &json["image_files"][0]), (&1.into(), &"image-01-roof-line.png".into()));
        assert_eq!(json["request"]["label"]["role"], "generator");
        assert_eq!(fs::read(folder.join("image-01-roof-line.png")).unwrap(), vec![7; 9]);
        answer(folder, "\u{feff}class NewModel: ...");
    })
    .unwrap();
    assert_eq!(reply.text, "class NewModel: ...");
    assert_eq!((reply.cost_usd, reply.usage.estimated, reply.usage.output), (None, true, Some(5)));
    assert_eq!(reply.notes, [ESTIMATED]);
    assert!(ear.heard("reply.md"));
    assert_eq!(letters(dir.path()).len(), 1, "the folder is the record");
    assert_eq!(reply.model, format!("mailbox:{}", dir.path().display()));
}

#[test]
fn counted_tokens_and_cost_are_taken_and_nonsense_is_not() {
    let good = r#"{"input": 10, "output": 3, "cost_usd": 0.25, "model": "grace"}"#;
    let long_name = format!(r#"{{"input": 1, "model": "a\u001b[31m{}"}}"#, "x".repeat(5000));
    for (text, cost, note) in [
        (good, Some(0.25), None),
        (r#"{"cost_usd": 0.5}"#, Some(0.5), Some(ESTIMATED)),
        (r#"{"cost_usd": -1}"#, None, Some("no amount")),
        (&long_name, None, None),
        (r#"{"price": 1}"#, None, Some("price")),
        ("{", None, Some("usage.json is not")),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let reply = asked(dir.path(), &request("generator", 1, "a"), &Ear::default(), |folder| {
            fs::write(folder.join(USAGE), text).unwrap();
            answer(folder, "text");
        })
        .unwrap();
        assert_eq!(reply.cost_usd, cost, "{text}");
        assert!(note.is_none_or(|note| reply.notes.concat().contains(note)), "{text}: {:?}", reply.notes);
        assert!(!reply.model.contains('\u{1b}') && reply.model.chars().count() < 250, "{}", reply.model);
        if text == good {
            assert_eq!((reply.usage.input, reply.usage.estimated, reply.model.as_str()), (Some(10), false, "grace"));
        }
    }
}

#[test]
fn unusable_answers_are_set_aside_and_waiting_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let ear = Ear::default();
    let bad = |folder: &Path, n: u32| until(|| is_there(&folder.join(format!("reply.bad-{n}.md"))));
    let reply = asked(dir.path(), &request("generator", 1, "a"), &ear, |folder| {
        answer(folder, " \n");
        bad(folder, 1);
        answer(folder, [0xff, 0xfe, 0x00]);
        bad(folder, 2);
        answer(folder, vec![b'x'; (MAX_REPLY + 1) as usize]);
        bad(folder, 3);
        fs::create_dir(folder.join(REPLY)).unwrap();
        bad(folder, 4);
        symlink("/etc/passwd", folder.join(REPLY)).unwrap();
        bad(folder, 5);
        assert!(std::process::Command::new("mkfifo").arg(folder.join(REPLY)).status().unwrap().success());
        bad(folder, 6);
        answer(folder, "good");
    })
    .unwrap();
    assert_eq!(reply.text, "good");
    for why in ["is empty", "not UTF-8", "larger than 4096 KiB", "is a folder", "symbolic link", "not a plain file"] {
        assert!(ear.heard(why), "{why} was not said");
    }
}

#[test]
fn an_answer_written_in_place_is_not_torn_off() {
    let dir = tempfile::tempdir().unwrap();
    // The usual pace of looking: the writer has a second and a half.
    let mailbox = Mailbox::new(dir.path());
    let reply = thread::scope(|scope| {
        let asking = scope.spawn(|| mailbox.ask(&request("generator", 1, "a"), &Unwatched));
        until(|| !letters(dir.path()).is_empty());
        // Opened before it has any text, as an editor or a shell does.
        let mut file = fs::File::create(letters(dir.path())[0].join(REPLY)).unwrap();
        thread::sleep(Duration::from_millis(400));
        io::Write::write_all(&mut file, b"whole").unwrap();
        asking.join().unwrap().unwrap()
    });
    assert_eq!(reply.text, "whole");
}

#[test]
fn two_threads_share_a_mailbox() {
    let dir = tempfile::tempdir().unwrap();
    thread::scope(|scope| {
        let ask = |ordinal: u32| {
            let dir = dir.path();
            scope.spawn(move || mailbox(dir).ask(&request("generator", ordinal, "a"), &Unwatched).unwrap().text)
        };
        let (one, two) = (ask(1), ask(2));
        until(|| letters(dir.path()).len() == 2);
        for folder in letters(dir.path()).iter().rev() {
            let name = folder.file_name().unwrap().to_string_lossy().into_owned();
            answer(folder, if name.contains("-01-") { "first" } else { "second" });
        }
        assert_eq!((one.join().unwrap(), two.join().unwrap()), ("first".into(), "second".into()));
    });
}

#[test]
fn the_same_request_of_many_threads_is_asked_once() {
    let dir = tempfile::tempdir().unwrap();
    thread::scope(|scope| {
        let dir = dir.path();
        let asking: Vec<_> = (0..4)
            .map(|_| scope.spawn(move || mailbox(dir).ask(&request("generator", 1, "a"), &Unwatched).unwrap().text))
            .collect();
        until(|| !letters(dir).is_empty());
        answer(&letters(dir)[0], "once");
        for thread in asking {
            assert_eq!(thread.join().unwrap(), "once");
        }
        assert_eq!(letters(dir).len(), 1);
    });
}

#[test]
fn cancelling_leaves_a_marker_and_resuming_adopts_the_request() {
    let dir = tempfile::tempdir().unwrap();
    let ear = Ear::default();
    let request_one = request("generator", 1, "a");
    let error = asked(dir.path(), &request_one, &ear, |_| ear.stop.store(true, Ordering::Relaxed)).unwrap_err();
    assert_eq!(error.kind, CallErrorKind::Cancelled);
    let folder = letters(dir.path()).remove(0);
    assert!(folder.join(CANCELLED).is_file());
    let reply = asked(dir.path(), &request_one, &Ear::default(), |folder| {
        until(|| !folder.join(CANCELLED).exists());
        answer(folder, "late");
    })
    .unwrap();
    assert_eq!(reply.text, "late");
    assert!(reply.notes[0].contains("not asked again"), "{:?}", reply.notes);
    // What was answered while nobody waited is found as well, and another text is another request.
    assert_eq!(mailbox(dir.path()).ask(&request_one, &Unwatched).unwrap().text, "late");
    assert_eq!(letters(dir.path()), [folder]);
}

#[test]
fn a_removed_folder_ends_the_wait() {
    let dir = tempfile::tempdir().unwrap();
    let error =
        asked(dir.path(), &request("generator", 1, "a"), &Ear::default(), |folder| fs::remove_dir_all(folder).unwrap())
            .unwrap_err();
    assert!(error.kind == CallErrorKind::Setup && error.text.contains("removed"), "{error}");
}

#[test]
fn a_damaged_or_foreign_folder_is_not_adopted() {
    let dir = tempfile::tempdir().unwrap();
    let request = request("generator", 1, "a");
    let hash = request_hash(&request);
    for (name, text) in [("20200101T000000-x", "{"), ("20200102T000000-x", r#"{"version": 1, "hash": "other"}"#)] {
        let folder = dir.path().join(format!("{name}-{}", &hash[..8]));
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("request.json"), text).unwrap();
    }
    assert_eq!(letter::find(dir.path(), &hash).unwrap(), None);
    let folder = letter::put(dir.path(), &request, &hash).unwrap();
    assert_eq!(letter::find(dir.path(), &hash).unwrap(), Some(folder));
}

#[test]
fn names_of_folders_sort_by_time_and_are_bounded() {
    let mut hostile = request(&"r/".repeat(500), u32::MAX, "a");
    hostile.label.problem = "../".to_owned() + &"ü".repeat(500);
    let at = |text: &str| text.parse::<jiff::Timestamp>().unwrap();
    let early = letter::id(&hostile, &"0".repeat(64), at("2026-11-15T08:15:02Z"));
    let late = letter::id(&hostile, &"0".repeat(64), at("2026-11-15T08:15:03Z"));
    assert!(early < late && early.starts_with("20261115T081502-"), "{early}");
    assert!(early.len() < 120 && early.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c)), "{early}");
}

#[test]
fn a_mailbox_that_cannot_be_made_says_so() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("file"), "").unwrap();
    let error = mailbox(&dir.path().join("file")).ask(&request("generator", 1, "a"), &Unwatched).unwrap_err();
    assert!(error.kind == CallErrorKind::Setup && error.text.contains("permissions"), "{error}");
}
