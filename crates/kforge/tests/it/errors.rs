//! What kforge says of mistakes, word for word. Nothing here needs Python.

use crate::support::{errors, kforge, root, run};
use std::{fmt::Write, path::Path};

const PROBLEM: &str = "examples/softmax/problem.py";
const CANDIDATE: &str = "examples/softmax/cpu_cpp.py";

const MISTAKES: [&[&str]; 27] = [
    &["eval", PROBLEM],
    &["eval", "no/such/problem.py", CANDIDATE],
    &["eval", PROBLEM, "no/such/candidate.py"],
    &["eval", PROBLEM, CANDIDATE, "--target", "nvidia/cobol"],
    &["eval", PROBLEM, CANDIDATE, "--target", "cuda"],
    &["eval", PROBLEM, CANDIDATE, "--timeout", "soon"],
    &["eval", PROBLEM, CANDIDATE, "--memory", "0"],
    &["eval", PROBLEM, CANDIDATE, "--threads", "0"],
    &["eval", PROBLEM, CANDIDATE, "--executor", "exchagne:x"],
    &["eval", PROBLEM, CANDIDATE, "--executor", "exchange:FOLDER/jobs", "--device", "1"],
    &["eval", PROBLEM, CANDIDATE, "--executor", "exchange:FOLDER/jobs", "--python", "python3"],
    &["eval", PROBLEM, CANDIDATE, "--executor-timeout", "5m"],
    &["eval", PROBLEM, CANDIDATE, "--carry", "x"],
    &["eval", PROBLEM, CANDIDATE, "--tag", "x"],
    &["eval", PROBLEM, CANDIDATE, "--submit"],
    &["eval", PROBLEM, CANDIDATE, "--versus"],
    &["eval", PROBLEM, CANDIDATE, "--baseline", "no/such/kernel.py"],
    &["eval", PROBLEM, CANDIDATE, "--guard-file", "no/such/file.toml"],
    &["eval", PROBLEM, CANDIDATE, "examples/softmax/nvidia_triton.py"],
    &["guard", CANDIDATE, "--allow-rule", "monkey_path"],
    &["guard", CANDIDATE, "--ban", "torch..mm"],
    &["profile", PROBLEM, CANDIDATE, "--time-us", "0"],
    &["optimize", "no/such/problem.py"],
    &["optimize", PROBLEM, "--target", "cpu/cpp", "--model", "gtp-5"],
    &["optimize", PROBLEM, "--target", "cpu/cpp", "--no-profile", "--all-metrics"],
    &["resume", "no/such/run"],
    &["worker", "drain", "no/such/folder"],
];

#[test]
fn mistakes_are_explained_word_for_word() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().display().to_string();
    let mut told = String::new();
    for words in MISTAKES {
        let real: Vec<String> = words.iter().map(|word| word.replace("FOLDER", &place)).collect();
        let output = run(kforge().args(&real));
        assert!(output.stdout.is_empty(), "{words:?}: stdout is for answers");
        let code = output.status.code().map_or("none".to_owned(), |code| code.to_string());
        let said = plain(&errors(&output), folder.path());
        let _ = write!(told, "$ kforge {}\n{said}exit code {code}\n\n", words.join(" "));
    }
    insta::assert_snapshot!("mistakes", told);
}

/// Without what differs between machines.
fn plain(text: &str, folder: &Path) -> String {
    text.replace(&folder.display().to_string(), "FOLDER").replace(&root().display().to_string(), "ROOT")
}
