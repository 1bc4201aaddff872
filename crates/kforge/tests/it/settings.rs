//! One list of settings: what files and flags say reaches the evaluation, whichever command is used. Jobs that nobody does
//! show it, without an evaluation.

use crate::support::{answers, errors, kforge, root, run};
use serde_json::{Value, json};
use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
};

const SETTINGS: &str = "deterministic = true\nmemory = 8\ntimeout = '5m'\nban = ['torch.mm']\n";
const FLAGS: [&str; 9] = [
    "--timeout=2m",
    "--redraws=2",
    "--own-operators",
    "--arch=sm_90a",
    "--require-sandbox=partial",
    "--require-idle",
    "--threads=3",
    "--problem-timeout=90",
    "--executor=exchange:jobs",
];

/// In a folder with settings; nothing is there to evaluate with.
fn command(folder: &Path, words: &[&str]) -> Command {
    std::fs::write(folder.join("kforge.toml"), SETTINGS).unwrap();
    let mut command = kforge();
    command.current_dir(folder).args(words).env("KFORGE_PYTHON", "/nonexistent");
    command
}

fn files(command: &mut Command) -> &mut Command {
    command.arg(root().join("examples/softmax/problem.py")).arg(root().join("examples/softmax/cpu_cpp.py"))
}

/// What the only job in the exchange folder asks for.
fn options(folder: &Path) -> Value {
    let mut jobs: Vec<PathBuf> =
        std::fs::read_dir(folder.join("jobs/pending")).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(jobs.len(), 1, "{jobs:?}");
    let text = std::fs::read_to_string(jobs.remove(0).join("job.json")).unwrap();
    serde_json::from_str::<Value>(&text).unwrap()["work"]["options"].take()
}

fn assert_as_set(options: &Value) {
    let expected = json!({
        "target": "cpu/cpp", "arch": "sm_90a", "threads": 3, "timeout_s": 120.0, "problem_timeout_s": 90.0,
        "redraws": 2, "require_idle": true, "require_sandbox": "partial", "memory_gib": 8.0,
    });
    for (key, value) in expected.as_object().unwrap() {
        assert_eq!(&options[key], value, "{key}: {options}");
    }
    assert_eq!(options["contract"]["deterministic"], true, "{options}");
    assert_eq!(options["contract"]["operators"], "own", "{options}");
}

#[test]
fn eval_goes_by_flags_and_files() {
    let folder = tempfile::tempdir().unwrap();
    let output = run(files(command(folder.path(), &["eval", "--submit"]).args(FLAGS)));
    assert_eq!(output.status.code(), Some(0), "{}", errors(&output));
    assert_as_set(&options(folder.path()));
}

#[test]
fn profile_goes_by_flags_and_files() {
    let folder = tempfile::tempdir().unwrap();
    let output = run(files(command(folder.path(), &["profile", "--executor-timeout=300ms"]).args(FLAGS)));
    assert_eq!(output.status.code(), Some(70), "{}", errors(&output));
    let options = options(folder.path());
    assert_as_set(&options);
    assert_eq!((&options["no_timing"], &options["baselines"]), (&json!(true), &json!("eager")));
}

#[test]
fn optimize_goes_by_flags_and_files() {
    let folder = tempfile::tempdir().unwrap();
    let mut asked = command(folder.path(), &["optimize", "--executor-timeout=300ms"]);
    let output = run(asked.args(FLAGS).arg(root().join("examples/softmax/problem.py")));
    assert_eq!(output.status.code(), Some(70), "{}", errors(&output));
    assert_as_set(&options(folder.path()));
}

#[test]
fn a_run_is_resumed_from_anywhere_with_its_own_paths() {
    let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::write(folder.path().join("note.md"), "Remember the marmots.").unwrap();
    let mut asked = command(folder.path(), &["optimize", "--executor-timeout=300ms", "--prompt-append=note.md"]);
    let problem = root().join("examples/softmax/problem.py");
    let output = run(asked.args(["--run=run", "--executor=exchange:jobs"]).arg(problem));
    assert_eq!(output.status.code(), Some(70), "{}", errors(&output));
    let job = options(folder.path());

    let resumed = run(kforge().current_dir(elsewhere.path()).arg("resume").arg(folder.path().join("run")));
    let said = errors(&resumed);
    assert_eq!(resumed.status.code(), Some(70), "{said}");
    assert!(said.contains("no answer to job") && said.contains("the run began in"), "{said}");
    assert_eq!(options(folder.path()), job, "the same job waits in the same folder");
    assert_eq!(std::fs::read_dir(elsewhere.path()).unwrap().count(), 0);
}

#[test]
fn the_rules_of_the_file_hold_for_every_command() {
    let folder = tempfile::tempdir().unwrap();
    let problem = root().join("examples/softmax/problem.py");
    let candidate = folder.path().join("candidate.py");
    let source = std::fs::read_to_string(root().join("examples/softmax/cpu_cpp.py")).unwrap();
    std::fs::write(&candidate, format!("{source}\n\ndef product(a, b):\n    return torch.mm(a, b)\n")).unwrap();
    let refused = |words: &[&str], with_problem: bool| {
        let mut command = command(folder.path(), words);
        if with_problem {
            command.arg(&problem);
        }
        let output = run(command.arg(&candidate));
        assert_eq!(output.status.code(), Some(13), "{words:?}: {}", errors(&output));
        format!("{}{}", String::from_utf8_lossy(&output.stdout), errors(&output))
    };
    for (words, with_problem) in [(&["eval"][..], true), (&["profile"], true), (&["guard"], false)] {
        assert!(refused(words, with_problem).contains("`torch.mm` is banned here"), "{words:?}");
    }
    std::fs::write(&candidate, "# nothing\n").unwrap();
    for (words, with_problem) in [(&["eval"][..], true), (&["profile"], true), (&["guard"], false)] {
        assert!(refused(words, with_problem).contains("the file has no code"), "{words:?}");
    }
}

#[test]
fn what_an_executor_cannot_honour_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let cases: [(&[&str], &str); 3] = [
        (&["--device=1", "--executor=exchange:jobs"], "give --device to `kforge worker drain`"),
        (&["--python=python3", "--executor=exchange:jobs"], "give --python to `kforge worker drain`"),
        (&["--executor-timeout=2m"], "--executor-timeout is for exchange:DIR and ssh:HOST"),
    ];
    let refused = |output: &Output, says: &str| {
        assert_eq!(output.status.code(), Some(2), "{}", errors(output));
        assert!(errors(output).contains(says), "{}", errors(output));
    };
    for (flags, says) in cases {
        for judging in ["eval", "profile"] {
            refused(&run(files(command(folder.path(), &[judging]).args(flags))), says);
        }
        let mut asked = command(folder.path(), &["optimize", "--target=cpu/cpp"]);
        refused(&run(asked.args(flags).arg(root().join("examples/softmax/problem.py"))), says);
    }
    refused(&run(files(&mut command(folder.path(), &["eval", "--tag=again"]))), "--tag is for exchange:DIR");
    let sanitize = command(folder.path(), &["profile", "--sanitize", "--executor=exchange:jobs"]);
    refused(&run(files(&mut { sanitize })), "--sanitize works in place only");
}

#[test]
fn variables_are_listed_and_keys_are_not_shown() {
    let folder = tempfile::tempdir().unwrap();
    let shown = run(&mut command(folder.path(), &["config", "--env", "--json"]));
    let list = answers(&shown).remove(0);
    let find = |name: &str| list.as_array().unwrap().iter().find(|one| one["name"] == name).cloned();
    assert_eq!(find("KFORGE_PYTHON").unwrap()["value"], "/nonexistent");
    let key = find("OPENAI_API_KEY").unwrap();
    assert_eq!((&key["set"], &key["value"]), (&json!(true), &Value::Null));
    assert!(find("KFORGE_BUILD_DIR").is_none(), "it is none of the user's");
    let text = run(&mut command(folder.path(), &["config", "--env"]));
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(text.contains("KFORGE_PYTHON = /nonexistent\n") && text.contains("OPENAI_API_KEY is set\n"), "{text}");
    assert!(!text.contains("canary") && !list.to_string().contains("canary"), "{text}");
}
