//! Evaluations that others do, through an exchange folder: two folders with a copy between them, workers that die.

use crate::support::{answers, errors, kforge, root, run, verdict};
use serde_json::Value;
use std::{
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

const PATIENCE: Duration = Duration::from_mins(3);

/// Softmax whose sizes come from a module beside it.
fn problem(folder: &Path) -> PathBuf {
    let text = std::fs::read_to_string(root().join("examples/softmax/problem.py")).unwrap();
    let text = text.replace("batch_size = 1024\ndim = 2048", "from sizes import batch_size, dim");
    assert!(text.contains("from sizes"));
    std::fs::create_dir_all(folder).unwrap();
    std::fs::write(folder.join("sizes.py"), "batch_size = 256\ndim = 2048\n").unwrap();
    std::fs::write(folder.join("unrelated.py"), "raise SystemExit\n").unwrap();
    std::fs::write(folder.join("problem.py"), text).unwrap();
    folder.join("problem.py")
}

/// As `cp -r from/. to`.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    assert!(Command::new("cp").arg("-r").arg(from.join(".")).arg(to).status().unwrap().success());
}

fn eval(problem: &Path, candidates: &[&str], exchange: &Path, more: &[&str]) -> Command {
    let mut command = kforge();
    command.args(["eval", "--json", "--no-timing"]).args(more).arg(problem).args(candidates);
    command.arg("--executor").arg(format!("exchange:{}", exchange.display()));
    command
}

fn drain(exchange: &Path, more: &[&str]) -> Command {
    let mut command = kforge();
    command.args(["worker", "drain", "--json"]).arg(exchange).args(more);
    command
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

fn wait_for(what: &str, mut look: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !look() {
        assert!(begun.elapsed() < PATIENCE, "no {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn start(command: &mut Command) -> Child {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

#[test]
fn jobs_travel_by_copy_and_answers_come_back() {
    let folder = tempfile::tempdir().unwrap();
    let (here, there) = (folder.path().join("here"), folder.path().join("there"));
    let problem = problem(&folder.path().join("mine"));
    let candidates = ["examples/softmax/cpu_cpp.py", "examples/failing/runtime_error.py"];

    // The machine that asks needs neither Python nor a cache.
    let mut submit = eval(&problem, &candidates, &here, &["--submit"]);
    let submitted = run(submit.env("KFORGE_PYTHON", "/nonexistent").env("KFORGE_CACHE_DIR", "/nonexistent"));
    assert_eq!(submitted.status.code(), Some(0), "{}", errors(&submitted));
    let ids: Vec<String> =
        answers(&submitted).iter().map(|answer| answer["job"].as_str().unwrap().to_owned()).collect();
    assert_eq!(ids.len(), 2);
    assert!(here.join("pending").join(&ids[0]).join("aux/sizes.py").exists());
    assert!(!here.join("pending").join(&ids[0]).join("aux/unrelated.py").exists());

    copy(&here, &there);
    let half = there.join("pending/half-copied");
    std::fs::create_dir_all(&half).unwrap();
    std::fs::write(half.join("job.json"), "{\"version\": 1, \"id\": \"half-co").unwrap();
    let cache = folder.path().join("cache");
    let drained = run(drain(&there, &["--cache"]).arg(&cache));
    assert_eq!(drained.status.code(), Some(0), "{}", errors(&drained));
    let lines = answers(&drained);
    assert_eq!(lines.len(), 3, "{lines:?}");
    let report = &lines[2]["report"];
    assert_eq!(report["jobs"], 2);
    assert!(report["left_alone"]["half-copied"].as_str().unwrap().contains("job.json"), "{report}");
    assert!(report["device_s"].as_f64().unwrap() > 0.0 && report["device_s"].as_f64() < report["wall_s"].as_f64());
    assert!(half.exists() && cache.join("eval").is_dir());
    assert!(there.join("done").join(&ids[0]).join("out/log.txt").exists());

    copy(&there, &here);
    let mut collect = eval(&problem, &candidates, &here, &["--executor-timeout", "1m"]);
    let collected = run(collect.env("KFORGE_PYTHON", "/nonexistent"));
    let results = answers(&collected);
    assert_eq!(results.iter().map(verdict).collect::<Vec<_>>(), ["correct", "runtime_error/launch"]);
    assert_eq!(collected.status.code(), Some(11), "{}", errors(&collected));
    assert!(results[0]["stages_s"]["start"].is_number() != results[1]["stages_s"]["start"].is_number(), "one session");
    assert_eq!(results[0]["candidate_file"], candidates[0]);
    assert_eq!(results[0]["problem_file"], problem.display().to_string());
    assert!(errors(&collected).contains("was answered before"), "{}", errors(&collected));
    assert!(names(&here.join("pending")).iter().all(|name| name == "half-copied"));

    // The folder is carried there once more: nothing is done twice.
    copy(&here, &there);
    let again = answers(&run(drain(&there, &["--cache"]).arg(&cache)));
    assert_eq!(again.last().unwrap()["report"]["jobs"], 0);
}

#[test]
fn a_killed_worker_leaves_its_job_to_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let exchange = folder.path().join("jobs");
    let asking = start(&mut eval(&problem(folder.path()), &["examples/softmax/cpu_cpp.py"], &exchange, &[]));
    wait_for("job", || !names(&exchange.join("pending")).is_empty());
    let mut first = start(&mut drain(&exchange, &["--lease", "2s"]));
    wait_for("claim", || !names(&exchange.join("claimed")).is_empty());
    first.kill().unwrap();
    first.wait().unwrap();
    assert!(names(&exchange.join("done")).is_empty(), "it was to be killed before it answers");
    let mut jobs = 0;
    wait_for("second worker's answer", || {
        let drained = run(&mut drain(&exchange, &["--lease", "2s"]));
        jobs += answers(&drained).last().unwrap()["report"]["jobs"].as_u64().unwrap();
        jobs > 0
    });
    let output = asking.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", errors(&output));
    assert!(errors(&output).contains("kforge worker drain"), "whoever waits is told what for: {}", errors(&output));
    assert_eq!(jobs, 1);
}

#[test]
fn another_version_is_refused_by_name_and_one_job_can_be_executed_alone() {
    let folder = tempfile::tempdir().unwrap();
    let exchange = folder.path().join("jobs");
    let problem = problem(folder.path());
    let candidate = ["examples/softmax/cpu_cpp.py"];
    let submitted = run(&mut eval(&problem, &candidate, &exchange, &["--submit"]));
    let id = answers(&submitted)[0]["job"].as_str().unwrap().to_owned();
    let pending = exchange.join("pending").join(&id);
    let alone = folder.path().join("alone");
    copy(&pending, &alone);
    let text = std::fs::read_to_string(pending.join("job.json")).unwrap();
    std::fs::write(pending.join("job.json"), text.replacen("\"version\": 2", "\"version\": 99", 1)).unwrap();

    let drained = run(&mut drain(&exchange, &[]));
    assert_eq!(drained.status.code(), Some(70), "{}", errors(&drained));
    assert_eq!(answers(&drained).last().unwrap()["report"]["refused"], 1);
    let told = run(&mut eval(&problem, &candidate, &exchange, &[]));
    assert_eq!(told.status.code(), Some(70), "{}", errors(&told));
    assert!(errors(&told).contains("form 99") && errors(&told).contains("same version"), "{}", errors(&told));

    let executed = run(kforge().args(["worker", "exec", "--json"]).arg(&alone));
    assert_eq!(executed.status.code(), Some(0), "{}", errors(&executed));
    assert_eq!(answers(&executed)[0]["outcome"]["result"]["state"], "correct");
    assert!(alone.join("out/result.json").exists() && alone.join("done.json").exists());
    std::fs::write(alone.join("candidate.py"), "other").unwrap();
    let damaged = run(kforge().args(["worker", "exec"]).arg(&alone));
    assert_eq!(damaged.status.code(), Some(2), "{}", errors(&damaged));

    // What was told once is tried again, and a wait can be given up without losing the job.
    let waited = run(&mut eval(&problem, &candidate, &exchange, &["--executor-timeout", "1s"]));
    assert_eq!(waited.status.code(), Some(70), "{}", errors(&waited));
    assert!(errors(&waited).contains("no answer") && pending.exists(), "{}", errors(&waited));
}

#[test]
fn a_run_goes_on_where_its_job_was_answered_meanwhile() {
    let folder = tempfile::tempdir().unwrap();
    let exchange = folder.path().join("jobs");
    let mut optimize = kforge();
    optimize.current_dir(folder.path()).arg("optimize").arg(root().join("examples/softmax/problem.py"));
    optimize.args(["--run", "run", "--baselines", "eager", "--time-budget", "0.3s", "--iterations", "2"]);
    optimize.args(["--executor", "exchange:jobs"]).env("KFORGE_PYTHON", "/nonexistent");
    let mut running = start(&mut optimize);
    wait_for("job", || !names(&exchange.join("pending")).is_empty());
    running.kill().unwrap();
    running.wait().unwrap();
    let drained = run(&mut drain(&exchange, &[]));
    assert_eq!(answers(&drained).last().unwrap()["report"]["jobs"], 1, "{}", errors(&drained));

    let mut watching = start(&mut drain(&exchange, &["--watch"]));
    let resumed = run(kforge().current_dir(folder.path()).args(["resume", "run"]).env("KFORGE_PYTHON", "/nonexistent"));
    watching.kill().unwrap();
    watching.wait().unwrap();
    assert_eq!(resumed.status.code(), Some(0), "{}", errors(&resumed));
    let text = std::fs::read_to_string(folder.path().join("run/journal.jsonl")).unwrap();
    let events: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let count = |name: &str| events.iter().filter(|line| line["event"]["type"] == name).count();
    assert_eq!((count("judged"), count("profiled"), count("confirmed")), (2, 1, 1), "{text}");
    let done = names(&exchange.join("done"));
    // Whether the two are compared call by call depends on their times.
    let duels = count("duelled");
    assert!(
        duels <= 1 && done.len() == 4 + duels,
        "two attempts, a profile, the winner again; nothing twice: {done:?}"
    );
}

#[test]
fn wrong_use_of_executors_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let jobs = format!("exchange:{}", folder.path().display());
    let cases: [(&[&str], &str); 6] = [
        (&["--executor", "exchagne:x"], "exchange:DIR"),
        (&["--submit"], "exchange:DIR"),
        (&["--executor", "ssh:nowhere.invalid", "--submit"], "exchange:DIR"),
        (&["--executor", &jobs, "--python", "python3"], "kforge worker drain"),
        (&["--executor", &jobs, "--carry", "/etc/passwd"], "folder of the problem"),
        (&["--carry", "x"], "exchange:DIR"),
    ];
    for (flags, expected) in cases {
        let args = ["eval", "examples/softmax/problem.py", "examples/softmax/cpu_cpp.py"];
        let output = run(kforge().args(args).args(flags));
        assert_eq!(output.status.code(), Some(2), "{flags:?}: {}", errors(&output));
        assert!(errors(&output).contains(expected), "{flags:?}: {}", errors(&output));
    }
    let none = run(kforge().args(["worker", "drain", "/no/such/folder"]));
    assert_eq!(none.status.code(), Some(2), "{}", errors(&none));
}
