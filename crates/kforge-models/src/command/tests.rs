use super::*;
use crate::support::testing::{Ear, request, until};
use crate::{Image, Speaker, Turn, Unwatched};
use std::fs;
use std::sync::atomic::Ordering;
use std::thread;

fn sh(script: &str) -> Command {
    with(script, CommandOptions::default())
}

fn with(script: &str, options: CommandOptions) -> Command {
    Command::new("agent", ["/bin/sh", "-c", script].map(str::to_owned).into(), options)
}

fn ask(command: &Command) -> Result<Reply, CallError> {
    command.ask(&request("generator", 1, "Write it."), &Unwatched)
}

#[test]
fn the_prompt_goes_in_and_the_reply_comes_out() {
    let reply = ask(&sh("cat; echo noise >&2")).unwrap();
    assert_eq!(reply.text, "You write kernels.\n\nWrite it.");
    assert_eq!((reply.cost_usd, reply.usage.estimated, reply.model.as_str()), (None, true, "agent"));
    assert_eq!(reply.notes, [ESTIMATED]);
}

#[test]
fn a_conversation_is_one_text_and_images_are_left_out_with_a_note() {
    let mut request = request("generator", 1, "Write it.");
    request.turns.push(Turn { speaker: Speaker::Assistant, text: "Done.".into() });
    request.turns.push(Turn { speaker: Speaker::User, text: "Faster.".into() });
    request.images.push(Image { name: "chart".into(), media_type: "image/png".into(), bytes: vec![] });
    let reply = sh("cat").ask(&request, &Unwatched).unwrap();
    assert!(reply.text.contains("# Assistant\n\nDone."), "{}", reply.text);
    assert!(reply.notes[0].contains("1 images were left out"), "{:?}", reply.notes);
}

#[test]
fn it_starts_in_an_empty_folder_that_is_gone_afterwards() {
    let reply = ask(&sh("ls -A | wc -l; touch rubbish; pwd")).unwrap();
    let (count, folder) = reply.text.split_once('\n').unwrap();
    assert_eq!(count.trim(), "0");
    assert!(!Path::new(folder).exists());
}

#[test]
fn the_environment_has_no_secret_that_was_not_named() {
    let reply = ask(&sh("env")).unwrap();
    assert!(reply.text.contains("NO_COLOR=1") && !reply.text.contains("CARGO_MANIFEST_DIR"), "{}", reply.text);
    let named = CommandOptions { pass_env: vec!["CARGO_MANIFEST_DIR".into()], ..CommandOptions::default() };
    assert!(ask(&with("env", named)).unwrap().text.contains("CARGO_MANIFEST_DIR="));
    let passed = |name: &str| is_passed(OsStr::new(name), &["MY_KEY".into()]);
    assert!(passed("HOME") && passed("XDG_CONFIG_HOME") && passed("LC_ALL") && passed("MY_KEY"));
    assert!(!passed("OPENAI_API_KEY") && !passed("AWS_SECRET_ACCESS_KEY") && !passed("GITHUB_TOKEN"));
}

#[test]
fn a_failure_shows_the_last_lines_but_no_passed_value() {
    let options = CommandOptions { pass_env: vec!["CARGO_MANIFEST_DIR".into()], ..CommandOptions::default() };
    let script =
        "yes noise | head -5000 >&2; printf '\\033[31mno login: %s\\033[0m\\n' \"$CARGO_MANIFEST_DIR\" >&2; exit 3";
    let error = ask(&with(script, options)).unwrap_err();
    assert_eq!(error.kind, CallErrorKind::Command);
    assert!(error.text.contains("no login: [hidden]\n") && error.text.contains("exit status: 3"), "{error}");
    assert!(error.text.len() < 1000 && error.may_be_billed, "{error}");
    // Nothing on standard error: what it printed is shown.
    assert!(ask(&sh("echo oops; exit 1")).unwrap_err().text.contains("oops"));
    let error = ask(&sh("kill -9 $$")).unwrap_err();
    assert!(error.text.contains("signal: 9") && error.text.contains("said nothing"), "{error}");
}

#[test]
fn a_limit_shows_no_passed_value() {
    let options = CommandOptions { pass_env: vec!["CARGO_MANIFEST_DIR".into()], ..CommandOptions::default() };
    let script = "echo \"usage limit reached for $CARGO_MANIFEST_DIR, try again in 5 minutes\"";
    for end in ["", "; exit 1"] {
        let error = ask(&with(&format!("{script}{end}"), options.clone())).unwrap_err();
        assert!(matches!(error.kind, CallErrorKind::LimitReached { .. }), "{error}");
        assert!(error.text.contains("reached for [hidden],"), "{error}");
    }
    let values = [" key-123\n", "short"].map(String::from);
    assert_eq!(without_values("key-123 short".into(), values.into_iter()), "[hidden] short");
}

#[test]
fn limits_are_seen_wherever_they_are_said() {
    for script in [
        "echo 'You have hit your usage limit. Try again in 5 minutes.' >&2; exit 1",
        "echo 'You have hit your usage limit. Try again in 5 minutes.'; exit 1",
        "echo '5-hour limit reached, try again in 5 minutes'",
        "echo 'usage limit reached, try again in 5 minutes' >&2",
        "yes noise | head -3000 >&2; echo 'Rate limit reached, try again in 5 minutes' >&2; exit 1",
    ] {
        let error = ask(&sh(script)).unwrap_err();
        let wait = Some(Duration::from_mins(5));
        assert_eq!(error.kind, CallErrorKind::LimitReached { lifted_in: wait }, "{script}: {error}");
    }
}

#[test]
fn replies_about_limits_are_replies() {
    let long = "printf 'The rate limit exceeded test.\\n%0500d\\n' 0";
    for script in [
        long,
        "echo '{\"bottleneck\": \"usage limit reached, try again in 5 minutes\"}'",
        "echo 'Call `retry()` when the rate limit exceeded error comes.'",
        "echo 'rate limit reached, try again in 5 minutes' >&2; echo 'def kernel(): pass'",
    ] {
        ask(&sh(script)).unwrap_or_else(|error| panic!("{script}: {error}"));
    }
}

#[test]
fn hostile_output_ends_with_a_clear_error() {
    let kind = |script: &str| ask(&sh(script)).unwrap_err().kind;
    assert_eq!(kind("yes"), CallErrorKind::Command);
    assert_eq!(kind("printf '\\377\\376'"), CallErrorKind::Garbled);
    assert_eq!(kind("true"), CallErrorKind::Command);
    assert_eq!(kind("printf ' \\n\\n'"), CallErrorKind::Command);
    // It never reads its input.
    let mut large = request("generator", 1, &"x".repeat(3 << 20));
    large.system.clear();
    assert_eq!(sh("exec <&-; echo done").ask(&large, &Unwatched).unwrap().text, "done");
    assert_eq!(sh("wc -c").ask(&large, &Unwatched).unwrap().text.trim(), ((3 << 20) + 1).to_string());
}

#[test]
fn programs_that_hang_are_stopped_by_either_clock() {
    let quick = |total, idle| CommandOptions {
        timeout: Duration::from_millis(total),
        idle_timeout: Duration::from_millis(idle),
        ..CommandOptions::default()
    };
    let error = ask(&with("sleep 1000 & sleep 1000", quick(300, 1_000_000))).unwrap_err();
    assert!(error.kind == CallErrorKind::Timeout && error.text.contains("did not end"), "{error}");
    let error = ask(&with("echo begun; sleep 1000", quick(1_000_000, 300))).unwrap_err();
    assert!(error.kind == CallErrorKind::Timeout && error.text.contains("said nothing"), "{error}");
    // It tries again and again at a limit.
    let error = ask(&with("echo 'Quota exceeded' >&2; sleep 1000", quick(400, 1_000_000))).unwrap_err();
    assert_eq!(error.kind, CallErrorKind::LimitReached { lifted_in: None });
}

#[test]
fn cancelling_kills_the_whole_group() {
    let folder = tempfile::tempdir().unwrap();
    let pids = folder.path().join("pids");
    let script = format!("sleep 1000 & echo $! > {0}.new; echo $$ >> {0}.new; mv {0}.new {0}; wait", pids.display());
    let ear = Ear::default();
    let error = thread::scope(|scope| {
        let asking = scope.spawn(|| sh(&script).ask(&request("generator", 1, "a"), &ear));
        until(|| pids.exists());
        ear.stop.store(true, Ordering::Relaxed);
        asking.join().unwrap().unwrap_err()
    });
    assert_eq!(error.kind, CallErrorKind::Cancelled);
    for pid in fs::read_to_string(&pids).unwrap().lines() {
        let pid = rustix::process::Pid::from_raw(pid.parse().unwrap()).unwrap();
        // Whoever inherits an orphan reaps it in its own time: gone, or dead and waiting for that.
        until(|| {
            let state = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
            rustix::process::test_kill_process(pid).is_err() || state.is_ok_and(|state| state.contains(") Z "))
        });
    }
}

#[test]
fn what_it_leaves_behind_does_not_keep_us_waiting() {
    assert_eq!(ask(&sh("sleep 1000 & echo done")).unwrap().text, "done");
}

#[test]
fn json_gives_tokens_and_cost() {
    let options = CommandOptions { json: Some(JsonFields::default()), ..CommandOptions::default() };
    let object =
        r#"{"is_error":false,"result":"Hello","total_cost_usd":0.5,"usage":{"input_tokens":4,"output_tokens":2}}"#;
    let reply = ask(&with(&format!("echo '{object}'"), options.clone())).unwrap();
    assert_eq!((reply.text.as_str(), reply.cost_usd, reply.usage.input), ("Hello", Some(0.5), Some(4)));
    assert!(!reply.usage.estimated && reply.notes.is_empty());

    let error = ask(&with("echo hello", options.clone())).unwrap_err();
    assert!(error.kind == CallErrorKind::Garbled && error.text.contains("JSON"), "{error}");
    let limit = object.replace("false", "true").replace("Hello", "You hit your limit · resets in 2h");
    for end in ["", "; exit 1"] {
        let error = ask(&with(&format!("echo '{limit}'{end}"), options.clone())).unwrap_err();
        assert_eq!(error.kind, CallErrorKind::LimitReached { lifted_in: Some(Duration::from_hours(2)) }, "{error}");
    }
    let error = ask(&with(&format!("echo '{}'", object.replace("false", "true")), options)).unwrap_err();
    assert!(error.kind == CallErrorKind::Command && error.text.contains("Hello"), "{error}");
}

#[test]
fn a_program_that_is_not_there_is_named() {
    let error = ask(&Command::new("agent", vec!["/nonexistent/agent".into()], CommandOptions::default())).unwrap_err();
    assert!(error.kind == CallErrorKind::Setup && error.text.contains("/nonexistent/agent"), "{error}");
    assert!(!error.may_be_billed);
    let error = ask(&Command::new("agent", Vec::new(), CommandOptions::default())).unwrap_err();
    assert!(error.kind == CallErrorKind::Setup && error.text.contains("registry"), "{error}");
    assert!(in_any_folder("./tool").to_string_lossy().starts_with('/') && in_any_folder("tool") == "tool");
}
