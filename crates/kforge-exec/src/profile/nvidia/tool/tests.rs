use super::*;

#[test]
fn versions_are_found_between_other_lines() {
    let said =
        "NVIDIA (R) Nsight Compute Command Line Profiler\nCopyright (c) 2018-2025\nVersion 2025.3.0.0 (build 1)\n";
    assert_eq!(version(said), "2025.3.0.0");
    assert_eq!(version(""), "of unknown version");
}

#[test]
fn how_far_the_candidate_came_is_said() {
    let ended: Ended = serde_json::from_str(
        r#"{"code": 1, "status": {"stage": "construct", "done": false, "error": ""}, "output": "x"}"#,
    )
    .unwrap();
    assert_eq!(ended.program(), "it ended at `construct`: x");
    let odd: Ended =
        serde_json::from_str(r#"{"status": {"error": "boom", "seconds": {"import torch": 2.5}}}"#).unwrap();
    assert_eq!(odd.program(), "boom");
    assert_eq!(odd.status.seconds["import torch"], 2.5);
}

#[test]
fn a_tool_that_does_not_start_is_quoted_without_what_python_says_of_itself() {
    let noise = "Error in sitecustomize; set PYTHONVERBOSE for traceback:\nPermissionError: [Errno 13] denied: 'x'\n";
    let refused = format!("{noise}\nsome banner\n========= Error: unrecognized option '--leak'\nUse --help\n");
    assert_eq!(first_error(&refused), "Error: unrecognized option '--leak'");
    assert_eq!(first_error(&format!("{noise}line one\nline two")), "line one");
    assert_eq!(first_error(noise), "it said nothing");
}

/// What a tool may do in the sandbox: talk to itself over the loopback interface, and reach nobody else.
#[test]
#[cfg(target_os = "linux")]
fn a_tool_has_loopback_sockets_and_no_network_and_a_cell_has_neither() {
    const SCRIPT: &str = r#"exec "$3" -I -c '
import socket, sys
def tried(what):
    try:
        return what() or "yes"
    except OSError as error:
        return str(error.errno)
def loopback():
    server = socket.socket(); server.bind(("127.0.0.1", 0)); server.listen()
    socket.create_connection(server.getsockname(), 5)
def outside():
    socket.create_connection(("192.0.2.1", 80), 5)
open(sys.argv[1], "w").write(f"loopback {tried(loopback)} outside {tried(outside)}")
' "$2""#;
    let python = std::env::var_os("KFORGE_PYTHON").map_or_else(|| "python3".into(), PathBuf::from);
    let cache = tempfile::tempdir().unwrap();
    let harness = crate::harness::unpack(cache.path()).unwrap();
    let Ok(mut zygote) = crate::zygote::Zygote::start(&python, &harness, 1, false, &crate::judge::place::Place::Cpu)
    else {
        return;
    };
    let limits = crate::sandbox::Limits::default();
    let folders = crate::sandbox::Folders::default();
    let root = tempfile::tempdir().unwrap();
    let mut sandbox = Sandbox::enter(&mut zygote, &root.path().join("scratch"), &limits, &folders, true).unwrap();
    if sandbox.report.level < SandboxLevel::Full {
        eprintln!("not tried: {:?}", sandbox.report.missing);
        return;
    }
    let mut said = |tools: bool| {
        let tool = json!({
            "program": "/bin/sh", "arguments": ["-c", SCRIPT, "sh"], "log_option": "--log-file",
            "environment": {}, "limit_s": 30, "waits": true,
        });
        let spec = json!({
            "role": "inspector", "tools": tools, "output_bytes": ANSWER_BYTES, "tool": tool,
            "solo": {"input_bytes": 0},
        });
        let inside = |name: &str| sandbox.scratch().join(name).to_string_lossy().into_owned();
        let environment = [("TMPDIR", inside("tmp")), ("KFORGE_BUILD_DIR", inside("build"))];
        let environment = environment.map(|(name, value)| (name.to_owned(), value)).into();
        let slots = Slots::plain((4096, ANSWER_BYTES)).unwrap();
        let mut cell = Cell::spawn(&mut sandbox, &spec, &environment, slots, &[]).unwrap();
        ask::<Started>(&mut cell, &mut sandbox, Look::Start, START_LIMIT).unwrap();
        let ended = ask::<Ended>(&mut cell, &mut sandbox, Look::Collect, START_LIMIT).unwrap();
        assert_eq!(ended.code, 0, "{}", ended.output);
        ended.log
    };
    // 101 is ENETUNREACH, 1 is EPERM.
    assert_eq!(said(true), "loopback yes outside 101");
    assert_eq!(said(false), "loopback 1 outside 1");
}
