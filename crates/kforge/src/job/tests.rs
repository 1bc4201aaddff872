//! The exchange folder: claims, leases, copies, hostile folders, many workers at once.

use super::{
    claim::{Answered, Claimed, write_answer},
    disk::{is_path, read_below},
    exchange::{Exchange, Place, Submitted},
    folder::HEAD,
    *,
};
use crate::config::Baselines;
use kforge_types::{Contract, Profile, SandboxLevel};
use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

pub(crate) fn options() -> JobOptions {
    JobOptions {
        target: "cpu/cpp".parse().unwrap(),
        arch: None,
        contract: Contract::default(),
        baselines: Baselines::Eager,
        incumbents: Vec::new(),
        threads: None,
        timeout_s: 10.0,
        problem_timeout_s: 10.0,
        time_budget_s: 0.1,
        fresh: false,
        kept_baselines: true,
        redraws: 0,
        no_timing: true,
        require_idle: false,
        require_sandbox: SandboxLevel::None,
        namespaces: true,
        memory_gib: 1.0,
    }
}

pub(crate) fn packed(name: &str) -> Packed {
    let work = Work {
        kind: Kind::Eval,
        name: name.to_owned(),
        problem_name: "sum.py".to_owned(),
        tag: String::new(),
        options: options(),
    };
    let text = |path: &str, text: &str| Content::new(path, text);
    Packed::new(work, vec![text(PROBLEM, "import tools"), text(CANDIDATE, name), text("aux/tools.py", "x = 1")])
}

pub(crate) fn profiled(id: &str) -> JobResult {
    JobResult::new(id, "somebody", 0.1, Outcome::Profiled { profile: Box::new(Profile::default()) })
}

fn failed(id: &str) -> JobResult {
    let outcome = Outcome::Failed { class: Failure::Machinery, text: "no space".to_owned() };
    JobResult::new(id, "somebody", 0.1, outcome)
}

fn mine(claimed: Claimed) -> claim::Claim {
    match claimed {
        Claimed::Mine(claim) => *claim,
        Claimed::Gone => panic!("gone"),
        Claimed::Unfit(unfit) => panic!("{unfit:?}"),
    }
}

fn unfit(claimed: Claimed) -> Unfit {
    match claimed {
        Claimed::Unfit(unfit) => unfit,
        _ => panic!("it was taken"),
    }
}

fn is_gone(claimed: &Claimed) -> bool {
    matches!(claimed, Claimed::Gone)
}

/// As `cp -r from/. to`.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(|entry| entry.unwrap()) {
        let place = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &place);
        } else {
            fs::copy(entry.path(), place).unwrap();
        }
    }
}

#[test]
fn the_id_is_the_content_and_nothing_else() {
    let (one, again) = (packed("a"), packed("a"));
    assert_eq!(one.job.id, again.job.id);
    assert!(one.job.id.starts_with("sum-eval-"), "{}", one.job.id);
    let mut other = one.job.work.clone();
    other.tag = "again".to_owned();
    assert_ne!(Job::computed_id(&other, &one.job.files), one.job.id);
    assert_ne!(packed("b").job.id, one.job.id);
    assert_eq!(packed("b").job.group(), one.job.group(), "another candidate belongs to the same group");
    assert_ne!(
        Packed {
            job: Job { work: Work { options: JobOptions { fresh: true, ..options() }, ..other }, ..one.job.clone() },
            files: Vec::new()
        }
        .job
        .group(),
        one.job.group()
    );
}

#[test]
fn a_job_goes_there_and_its_answer_comes_back_over_copies() {
    let folders = tempfile::tempdir().unwrap();
    let (here, there) = (folders.path().join("here"), folders.path().join("there"));
    let asking = Exchange::open(&here).unwrap();
    let job = packed("a");
    let id = job.job.id.as_str();
    assert_eq!(asking.submit(&job).unwrap(), Submitted::New);
    assert_eq!(asking.submit(&job).unwrap(), Submitted::Waiting);
    copy(&here, &there);
    let working = Exchange::open(&there).unwrap();
    let claim = mine(working.claim(id, "w").unwrap());
    assert_eq!(claim.packed, job);
    assert_eq!(working.place(id), Place::Claimed("w".to_owned()));
    let log = Content::new("out/log.txt", "said");
    assert_eq!(claim.answer(&profiled(id), vec![log]).unwrap(), Answered::Delivered);
    // A copy of the folder that comes too late brings the job a second time: it is not done again.
    copy(&here, &there);
    assert!(is_gone(&working.claim(id, "w").unwrap()));
    assert!(working.waiting().is_empty());
    // Half of the answer is none.
    copy(&there, &here);
    let answer = here.join("done").join(id).join("out/result.json");
    let whole = fs::read(&answer).unwrap();
    fs::write(&answer, &whole[..whole.len() / 2]).unwrap();
    assert!(asking.answer(id).unwrap().is_none());
    fs::remove_file(&answer).unwrap();
    assert!(asking.answer(id).unwrap().is_none());
    copy(&there, &here);
    let result = asking.answer(id).unwrap().unwrap();
    assert_eq!(asking.place(id), Place::Done);
    asking.collected(id, &result);
    assert!(asking.waiting().is_empty(), "the copy that still waits is taken away");
    assert_eq!(asking.submit(&job).unwrap(), Submitted::Answered);
}

#[test]
fn half_copied_folders_are_left_alone_until_they_are_whole() {
    let folder = tempfile::tempdir().unwrap();
    let exchange = Exchange::open(folder.path()).unwrap();
    let job = packed("a");
    let place = folder.path().join("pending").join(&job.job.id);
    let contents = job.contents().unwrap();
    // In any order that a copying program may choose.
    for missing in 0..contents.len() {
        for cut in [None, Some(0), Some(1)] {
            let _ = fs::remove_dir_all(&place);
            for (number, file) in contents.iter().enumerate() {
                let bytes = match cut {
                    None if number == missing => continue,
                    Some(kept) if number == missing => &file.bytes[..kept],
                    _ => &file.bytes,
                };
                fs::create_dir_all(place.join(&file.path).parent().unwrap()).unwrap();
                fs::write(place.join(&file.path), bytes).unwrap();
            }
            if cut == Some(1) && contents[missing].bytes.len() == 1 {
                continue;
            }
            let why = unfit(exchange.claim(&job.job.id, "w").unwrap());
            assert!(matches!(why, Unfit::Incomplete(_)), "{missing} {cut:?} {why:?}");
            assert!(place.is_dir(), "it stays where it is copied to");
        }
    }
    disk::write_below(&place, &contents).unwrap();
    mine(exchange.claim(&job.job.id, "w").unwrap());
}

#[test]
fn another_form_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let exchange = Exchange::open(folder.path()).unwrap();
    let refuse = |id: &str, head: &str| {
        let place = folder.path().join("pending").join(id);
        fs::create_dir_all(&place).unwrap();
        fs::write(place.join(HEAD), head).unwrap();
        unfit(exchange.claim(id, "w").unwrap());
        exchange.answer(id).unwrap().unwrap()
    };
    let Outcome::Refused { found, knows, text } = refuse("newer", r#"{"version": 7, "surprise": []}"#).outcome else {
        panic!("not refused")
    };
    assert_eq!((found, knows), (Some(7), VERSION));
    assert!(text.contains("form 7") && text.contains("form 2") && text.contains("same version"), "{text}");
    for (number, head) in ["{}", "[]", r#"{"version": 2}"#, r#"{"version": "2"}"#].iter().enumerate() {
        let result = refuse(&format!("odd-{number}"), head);
        assert!(matches!(result.outcome, Outcome::Refused { .. }) && !result.is_final(), "{head}");
    }
    // A name that is not the content's.
    let job = packed("a");
    disk::write_below(&folder.path().join("pending/other"), &job.contents().unwrap()).unwrap();
    assert!(matches!(unfit(exchange.claim("other", "w").unwrap()), Unfit::Refused { .. }));
}

#[test]
fn hostile_folders_lead_nowhere() {
    let folder = tempfile::tempdir().unwrap();
    let secret = folder.path().join("secret.txt");
    fs::write(&secret, "a").unwrap();
    let root = folder.path().join("jobs");
    let exchange = Exchange::open(&root).unwrap();
    let job = packed("a");
    let id = job.job.id.as_str();
    let place = root.join("pending").join(id);
    let fresh = || {
        let _ = fs::remove_dir_all(&place);
        disk::write_below(&place, &job.contents().unwrap()).unwrap();
    };
    // The content would be right, but it is a link: what it leads to is not ours to read.
    for path in [CANDIDATE, HEAD, "aux"] {
        fresh();
        let linked = place.join(path);
        let elsewhere = folder.path().join("elsewhere");
        let _ = fs::remove_dir_all(&elsewhere).or_else(|_| fs::remove_file(&elsewhere));
        fs::rename(&linked, &elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &linked).unwrap();
        assert!(matches!(unfit(exchange.claim(id, "w").unwrap()), Unfit::Incomplete(_)), "{path}");
    }
    // The whole folder is a link.
    fs::remove_dir_all(&place).unwrap();
    disk::write_below(&folder.path().join("whole"), &job.contents().unwrap()).unwrap();
    std::os::unix::fs::symlink(folder.path().join("whole"), &place).unwrap();
    assert!(matches!(unfit(exchange.claim(id, "w").unwrap()), Unfit::Incomplete(_)));
    fs::remove_file(&place).unwrap();
    // A pipe that nobody writes into, and a file that is larger than anything we make.
    fresh();
    fs::remove_file(place.join(CANDIDATE)).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, place.join(CANDIDATE), rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    assert!(matches!(unfit(exchange.claim(id, "w").unwrap()), Unfit::Incomplete(_)));
    fresh();
    fs::File::create(place.join(HEAD)).unwrap().set_len(1 << 40).unwrap();
    assert!(matches!(unfit(exchange.claim(id, "w").unwrap()), Unfit::Incomplete(_)));
    // Paths that lead out, sizes that lie: whatever the id says, nothing of them is used.
    for (path, bytes) in [("aux/../../secret.txt", 1), ("/etc/passwd", 1), ("aux/x.py", u64::MAX), ("other.py", 1)] {
        let mut wrong = job.clone();
        wrong.job.files.push(FileEntry { path: path.to_owned(), bytes, sha256: "0".repeat(64) });
        wrong.job.files.sort_by(|a, b| a.path.cmp(&b.path));
        wrong.job.id = Job::computed_id(&wrong.job.work, &wrong.job.files);
        let place = root.join("pending").join(&wrong.job.id);
        fs::create_dir_all(&place).unwrap();
        fs::write(place.join(HEAD), serde_json::to_vec(&wrong.job).unwrap()).unwrap();
        assert!(matches!(unfit(exchange.claim(&wrong.job.id, "w").unwrap()), Unfit::Refused { .. }), "{path}");
    }
    // Names that are no ids are not looked at.
    fs::create_dir_all(root.join("pending/.hidden")).unwrap();
    fs::create_dir_all(root.join("pending/a~b")).unwrap();
    fs::create_dir_all(root.join("pending/with space")).unwrap();
    assert_eq!(exchange.waiting(), [id]);
    assert_eq!(fs::read(&secret).unwrap(), b"a");
}

#[test]
fn hostile_answers_are_none_or_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let exchange = Exchange::open(folder.path()).unwrap();
    let id = "sum-eval-0";
    let place = folder.path().join("done").join(id);
    let write = |result: &JobResult| write_answer(&place, id, result, Vec::new());
    fs::create_dir_all(&place).unwrap();
    write(&profiled(id)).unwrap();
    assert!(exchange.answer(id).unwrap().is_some());
    write(&profiled("another")).unwrap();
    assert!(exchange.answer(id).unwrap_err().to_string().contains("another"));
    write(&JobResult { version: 9, ..profiled(id) }).unwrap();
    assert!(exchange.answer(id).unwrap_err().to_string().contains("form 9"));
    let escape = Outcome::Failed { class: Failure::Machinery, text: "\u{1b}[2Jgone\u{202e}".to_owned() };
    write(&JobResult::new(id, "w", 0.0, escape)).unwrap();
    assert_eq!(exchange.answer(id).unwrap().unwrap().summary(), "failed: gone");
    let outside = folder.path().join("outside.json");
    fs::rename(place.join("out/result.json"), &outside).unwrap();
    std::os::unix::fs::symlink(&outside, place.join("out/result.json")).unwrap();
    assert!(exchange.answer(id).unwrap().is_none());
    fs::write(place.join("done.json"), r#"{"version": 3}"#).unwrap();
    assert!(exchange.answer(id).unwrap_err().to_string().contains("same version"));
    // It is told once; then there is room for a better one.
    assert!(exchange.told(id).is_err());
    assert!(exchange.told(id).unwrap().is_none() && folder.path().join("failed").join(id).is_dir());
    fs::create_dir_all(&place).unwrap();
    fs::write(place.join("done.json"), "{").unwrap();
    assert!(exchange.answer(id).unwrap().is_none());
    let opened = disk::open_folder(&place).unwrap();
    assert!(read_below(&opened, "../outside.json", 100).is_err());
    assert!(!is_path("a//b") && !is_path("") && is_path("a/b.py"));
}

fn wait(what: &str, mut done: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < Duration::from_secs(30), "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_worker_that_falls_silent_loses_its_job_and_one_that_lives_does_not() {
    let folder = tempfile::tempdir().unwrap();
    let exchange = Exchange::open(folder.path()).unwrap().with_lease(Duration::from_millis(300));
    let job = packed("a");
    let id = job.job.id.as_str();
    exchange.submit(&job).unwrap();
    for died in 0..3 {
        let claim = mine(exchange.claim(id, "dies").unwrap());
        assert_eq!((claim.tries, claim.is_hopeless()), (died, false));
        let alive = Instant::now();
        while alive.elapsed() < Duration::from_millis(900) {
            assert!(exchange.put_back_expired().is_empty(), "it is renewed");
            std::thread::sleep(Duration::from_millis(30));
        }
        // The claim's thread ends with it, its folder stays: as after a kill.
        drop(claim);
        wait("the lease does not run out", || exchange.put_back_expired() == [id]);
        assert_eq!(exchange.place(id), Place::Pending);
    }
    let last = mine(exchange.claim(id, "careful").unwrap());
    assert!(last.is_hopeless(), "a job that ended three workers is not given to a fourth");
}

#[test]
fn who_comes_too_late_is_told_and_the_first_answer_stays() {
    let folder = tempfile::tempdir().unwrap();
    let exchange = Exchange::open(folder.path()).unwrap().with_lease(Duration::from_millis(200));
    let job = packed("a");
    let id = job.job.id.as_str();
    exchange.submit(&job).unwrap();
    let slow = mine(exchange.claim(id, "slow").unwrap());
    // As a machine that was asleep: its claim is taken away under its hands.
    fs::rename(folder.path().join(format!("claimed/{id}~slow")), folder.path().join("pending").join(id)).unwrap();
    let quick = mine(exchange.claim(id, "quick").unwrap());
    let answer = JobResult { worker: "quick".to_owned(), ..profiled(id) };
    assert_eq!(quick.answer(&answer, Vec::new()).unwrap(), Answered::Delivered);
    assert_eq!(slow.answer(&profiled(id), Vec::new()).unwrap(), Answered::TooLate);
    assert_eq!(exchange.answer(id).unwrap().unwrap().worker, "quick");
    assert!(fs::read_dir(folder.path().join("claimed")).unwrap().next().is_none());
}

#[test]
fn a_failure_is_told_once_and_then_tried_again() {
    let folder = tempfile::tempdir().unwrap();
    let exchange = Exchange::open(folder.path()).unwrap();
    let job = packed("a");
    let id = job.job.id.as_str();
    exchange.submit(&job).unwrap();
    mine(exchange.claim(id, "w").unwrap()).answer(&failed(id), Vec::new()).unwrap();
    assert_eq!(exchange.submit(&job).unwrap(), Submitted::Answered, "not before it was told");
    let told = exchange.answer(id).unwrap().unwrap();
    exchange.collected(id, &told);
    assert_eq!(exchange.submit(&job).unwrap(), Submitted::New);
    // On a machine that still has the failure, the job that came again is done again.
    copy(&folder.path().join("failed"), &folder.path().join("done"));
    mine(exchange.claim(id, "w").unwrap()).answer(&profiled(id), Vec::new()).unwrap();
    assert!(exchange.answer(id).unwrap().unwrap().is_final());
    exchange.drop_failure(id);
    assert!(exchange.answer(id).unwrap().is_some());
}

#[test]
fn many_workers_do_each_job_once() {
    let folder = tempfile::tempdir().unwrap();
    let exchange = Exchange::open(folder.path()).unwrap();
    let jobs: Vec<Packed> = (0..40).map(|number| packed(&number.to_string())).collect();
    for job in &jobs {
        assert_eq!(exchange.submit(job).unwrap(), Submitted::New);
    }
    let done: Vec<String> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..6)
            .map(|number| {
                let exchange = &exchange;
                scope.spawn(move || {
                    let mut done = Vec::new();
                    for id in exchange.waiting() {
                        if let Claimed::Mine(claim) = exchange.claim(&id, &format!("w{number}")).unwrap() {
                            assert_eq!(claim.answer(&profiled(&id), Vec::new()).unwrap(), Answered::Delivered);
                            done.push(id);
                        }
                    }
                    done
                })
            })
            .collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    let mut ids: Vec<String> = jobs.iter().map(|job| job.job.id.clone()).collect();
    let mut sorted = done.clone();
    ids.sort();
    sorted.sort();
    assert_eq!(sorted, ids);
    assert!(ids.iter().all(|id| exchange.answer(id).unwrap().is_some()));
}
