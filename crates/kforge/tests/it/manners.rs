//! What a new user meets when something goes wrong: servers that are down, keys that are refused, Ctrl-C, forgotten names.

use crate::support::{answers, errors, kforge, root, run, verdict};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::{
    io::{Read, Write},
    net::TcpListener,
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    time::{Duration, Instant},
};

const PROBLEM: &str = "examples/softmax/problem.py";

/// A compatible server that answers its first calls with these, and all further ones with the last.
fn server(replies: Vec<(u16, Value)>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            let mut stream = stream.unwrap();
            let (status, body) = &replies[number.min(replies.len() - 1)];
            let body = body.to_string();
            // The request must be read to its end, or the reply may be lost with it.
            let mut asked = Vec::new();
            let mut block = vec![0; 65536];
            while !is_whole(&asked) {
                let read = stream.read(&mut block).unwrap();
                assert!(read > 0, "half a request");
                asked.extend(&block[..read]);
            }
            let head = format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
            let _ = stream.write_all((head + &body).as_bytes());
        }
    });
    format!("vllm:x@http://{address}/v1")
}

fn is_whole(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request).into_owned();
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
    body.len() >= length.unwrap_or(0)
}

fn refusal() -> (u16, Value) {
    (401, json!({ "error": { "message": "Incorrect API key provided" } }))
}

/// A reply that holds no candidate, so that nothing is evaluated.
fn words() -> (u16, Value) {
    (200, json!({ "model": "x", "choices": [{ "message": { "content": "no" }, "finish_reason": "stop" }] }))
}

fn at(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = kforge();
    command.current_dir(folder).args(arguments);
    command
}

fn optimize(folder: &Path, model: &str, more: &[&str]) -> Command {
    let problem = folder.join("mine.py");
    if !problem.exists() {
        std::fs::copy(root().join(PROBLEM), &problem).unwrap();
    }
    let mut command = at(folder, &["optimize", "mine.py", "--target", "cpu/cpp", "--iterations", "1"]);
    command.args(["--model", model]).args(more);
    command
}

fn said(output: &Output, code: i32) -> String {
    assert_eq!(output.status.code(), Some(code), "{}", errors(output));
    format!("{}{}", String::from_utf8_lossy(&output.stdout), errors(output))
}

fn listed(folder: &Path) -> Vec<Value> {
    let output = run(&mut at(folder, &["runs", "--json"]));
    assert_eq!(output.status.code(), Some(0), "{}", errors(&output));
    answers(&output)
}

#[test]
fn a_dead_server_is_no_attempt() {
    let folder = tempfile::tempdir().unwrap();
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let output = run(&mut optimize(folder.path(), &format!("vllm:x@http://{address}/v1"), &[]));
    let text = said(&output, 2);
    assert_eq!(text.matches("Connection refused").count(), 1, "{text}");
    assert!(text.contains("check that the server runs") && text.contains("resume with `kforge resume runs/"), "{text}");
    assert!(output.stdout.is_empty(), "nothing was tried, so there is nothing to tell");
    let row = listed(folder.path()).remove(0);
    assert_eq!((&row["state"], &row["attempts"]), (&json!("waits for its model"), &json!(0)));
}

#[test]
fn a_wrong_key_is_said_once_and_the_last_run_is_resumed_with_a_right_one() {
    let folder = tempfile::tempdir().unwrap();
    let model = server(vec![refusal(), refusal(), words()]);
    for words in [&["optimize"][..], &["resume"]] {
        let output = match words {
            ["resume"] => run(&mut at(folder.path(), words)),
            _ => run(&mut optimize(folder.path(), &model, &[])),
        };
        let text = said(&output, 2);
        assert_eq!(text.matches("Incorrect API key").count(), 1, "{words:?}: {text}");
        assert!(!text.contains("no correct kernel"), "{words:?}: {text}");
    }
    let text = said(&run(&mut at(folder.path(), &["resume"])), 20);
    assert!(text.contains("no correct kernel in 1 attempt\n") && text.contains("no_code"), "{text}");
    assert!(text.contains("the last run is runs/"), "{text}");
}

#[test]
fn runs_are_listed_with_the_newest_first_and_found_by_their_names() {
    let folder = tempfile::tempdir().unwrap();
    let none = run(&mut at(folder.path(), &["runs"]));
    assert!(said(&none, 0).contains("there is no run in runs"));
    for command in ["show", "resume"] {
        assert!(said(&run(&mut at(folder.path(), &[command])), 2).contains("there is no run in runs"));
    }
    let model = server(vec![refusal(), words()]);
    for code in [2, 20] {
        said(&run(&mut optimize(folder.path(), &model, &[])), code);
    }
    std::fs::create_dir(folder.path().join("runs/broken")).unwrap();
    std::fs::write(folder.path().join("runs/broken/journal.jsonl"), "{}\n{}\n").unwrap();
    let rows = listed(folder.path());
    let of = |key: &str| -> Vec<Value> { rows.iter().map(|row| row[key].clone()).collect() };
    assert_eq!(of("attempts"), [json!(1), json!(0), json!(0)]);
    assert_eq!(of("problem"), [json!("mine"), json!("mine"), json!("?")]);
    assert_eq!(rows[0]["state"], "finished");
    assert!(rows[2]["state"].as_str().unwrap().contains("not an event"), "{rows:?}");
    assert_eq!((&rows[0]["best"], &rows[0]["usd"]), (&json!("none"), &Value::Null));
    let table = said(&run(&mut at(folder.path(), &["runs"])), 0);
    assert!(table.contains("waits for its model") && table.contains("unknown"), "{table}");
    let name = PathBuf::from(rows[1]["run"].as_str().unwrap());
    let shown = said(&run(at(folder.path(), &["show"]).arg(name.file_name().unwrap())), 0);
    assert!(shown.contains("a model could not be asked") && shown.contains("Incorrect API key"), "{shown}");
}

#[test]
fn ctrl_c_says_what_was_kept_and_how_to_resume() {
    let folder = tempfile::tempdir().unwrap();
    let mut started = optimize(folder.path(), "mailbox:mail", &[]);
    let child = started.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    the_letter(&folder.path().join("mail"));
    let going_on = said(&run(&mut at(folder.path(), &["show"])), 0);
    assert!(going_on.contains("the run is still going on"), "{going_on}");
    assert_eq!(listed(folder.path())[0]["state"], "running");
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.signal(), Some(2), "{}", errors(&output));
    let text = errors(&output);
    assert!(text.contains("interrupted; kept: 0 attempts judged"), "{text}");
    assert!(text.contains("resume with `kforge resume runs/"), "{text}");
    let shown = said(&run(&mut at(folder.path(), &["show"])), 0);
    assert!(shown.contains("no correct kernel yet") && shown.contains("kforge resume runs/"), "{shown}");
    assert_eq!(listed(folder.path())[0]["state"], "interrupted");
}

#[test]
fn a_changed_problem_is_no_reason_to_be_stuck() {
    let folder = tempfile::tempdir().unwrap();
    said(&run(&mut optimize(folder.path(), &server(vec![refusal()]), &[])), 2);
    let problem = folder.path().join("mine.py");
    let text = std::fs::read_to_string(&problem).unwrap();
    std::fs::write(&problem, text.replace("2048", "2049")).unwrap();
    let told = said(&run(&mut at(folder.path(), &["resume"])), 2);
    assert!(told.contains("has changed since the run began") && told.contains("Begin a new run: `kforge optimize"));
    assert!(told.contains("/problem.py ") && told.contains("`cp "), "{told}");
}

#[test]
fn an_estimate_is_an_answer() {
    let folder = tempfile::tempdir().unwrap();
    let output = run(&mut optimize(folder.path(), "gpt-5", &["--estimate", "--json"]));
    assert_eq!(output.status.code(), Some(0), "{}", errors(&output));
    let answer = answers(&output).remove(0);
    assert_eq!((&answer["attempts"], &answer["generator"]), (&json!(1), &json!("gpt-5")));
    assert!(answer["usd"].as_f64().unwrap() > 0.0 && answer["input_tokens"].as_u64().unwrap() > 0);
    let output = run(&mut optimize(folder.path(), "mailbox:mail", &["--estimate"]));
    assert!(String::from_utf8_lossy(&output.stdout).contains("cost unknown"), "{}", errors(&output));
    assert!(!folder.path().join("runs").exists(), "nothing was begun");
}

#[test]
fn a_price_on_the_command_line_makes_a_cap_in_dollars_hold() {
    let folder = tempfile::tempdir().unwrap();
    let usage = json!({ "prompt_tokens": 1_000_000, "completion_tokens": 100_000 });
    let (status, mut reply) = words();
    reply["usage"] = usage;
    let model = server(vec![(status, reply)]);
    let capped = |more: &[&str]| run(optimize(folder.path(), &model, &["--budget-usd", "3"]).args(more));
    assert!(said(&capped(&[]), 2).contains("give --price INPUT,OUTPUT"));
    let text = said(&capped(&["--price", "2,10"]), 20);
    assert!(text.contains("is not in the registry; assumed: it speaks openai-chat"), "{text}");
    assert!(text.contains("$3.0000 of $3.00 spent") && text.contains("1 attempt"), "{text}");
    assert_eq!(listed(folder.path())[0]["usd"], json!(3.0));
    let estimate =
        answers(&run(optimize(folder.path(), "mailbox:m", &["--price=2,10"]).args(["--estimate", "--json"])));
    assert!(estimate[0]["usd"].as_f64().unwrap() > 0.0, "{estimate:?}");
}

#[test]
fn each_agent_is_asked_in_its_own_way() {
    let folder = tempfile::tempdir().unwrap();
    let at_all = ["--temperature=0.5", "--max-output-tokens=9000", "--effort=medium"];
    let own = ["--analyst-temperature=0.25", "--generator-max-output-tokens=7000", "--generator-effort=high"];
    let mut asked = at(folder.path(), &["config", "--json"]);
    let settings = answers(&run(asked.args(at_all).args(own))).remove(0);
    assert_eq!(settings["generator_max_output_tokens"]["value"], 7000);
    assert_eq!(settings["analyst_temperature"]["value"], 0.25);
    let mut started = optimize(folder.path(), "mailbox:mail", &at_all);
    let mut child = started.args(own).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let request = the_letter(&folder.path().join("mail"));
    child.kill().unwrap();
    child.wait().unwrap();
    let request: Value = serde_json::from_str(&request).unwrap();
    let of = |key: &str| find(&request, key).cloned().unwrap_or_default();
    assert_eq!((of("temperature"), of("max_output_tokens")), (json!(0.5), json!(7000)), "{request}");
    assert_eq!(of("effort"), json!("high"));
}

/// The first request in a mailbox, for programs.
fn the_letter(mailbox: &Path) -> String {
    let begun = Instant::now();
    loop {
        let mut letters = std::fs::read_dir(mailbox).into_iter().flatten().flatten().map(|entry| entry.path());
        if let Some(text) = letters.find_map(|letter| std::fs::read_to_string(letter.join("request.json")).ok()) {
            return text;
        }
        assert!(begun.elapsed() < Duration::from_mins(1), "no request came");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A key, however deep.
fn find<'a>(value: &'a Value, key: &str) -> Option<&'a Value> {
    let Value::Object(fields) = value else { return None };
    fields.get(key).or_else(|| fields.values().find_map(|inner| find(inner, key)))
}

#[test]
fn errors_point_to_the_users_file_and_line() {
    let folder = tempfile::tempdir().unwrap();
    let source = std::fs::read_to_string(root().join("examples/softmax/cpu_cpp.py")).unwrap();
    // What is put in the place of what, and the verdict that follows.
    let cases = [
        ("float sum = 0.0f;", "float sum = nothing;", "compilation_failure/compiler"),
        ("float(self.temperature)", "self.nothing", "runtime_error/exception"),
        (", cols, float(self.temperature))", ", cols)", "runtime_error/exception"),
        ("def forward(self, x", "def forward(self, y=1, x", "generation_failure/syntax"),
        ("x = x.contiguous()", "x = eval('x')", "generation_failure/guardrail"),
    ];
    let mut judged = at(folder.path(), &["eval", "--no-timing", "--json"]);
    judged.arg(root().join(PROBLEM));
    let mut wanted = Vec::new();
    for (number, (old, new, verdict)) in cases.into_iter().enumerate() {
        let (name, text) = (format!("mine{number}.py"), source.replace(old, new));
        let (line, shown) = text.lines().enumerate().find(|(_, line)| line.contains(new)).unwrap();
        wanted.push((verdict, format!(" at {name}:{}: {}", line + 1, shown.trim())));
        std::fs::write(folder.path().join(&name), text).unwrap();
        judged.arg(name);
    }
    let output = run(&mut judged);
    let told = answers(&output);
    assert_eq!(told.len(), wanted.len(), "{}", errors(&output));
    for (answer, (expected, place)) in told.iter().zip(wanted) {
        let reason = answer["reason"].as_str().unwrap();
        assert_eq!(verdict(answer), expected, "{reason}");
        assert!(reason.contains(&place), "{place}: {reason}");
    }
    let declared =
        "the source declares softmax(const float* x, float* y, int64_t rows, int64_t cols, double temperature)";
    assert!(told[2]["reason"].as_str().unwrap().contains(declared), "{}", told[2]["reason"]);
}
