//! `kforge optimize` as a user meets it: mailboxes, kills, resumption, recordings; evaluation is live.

use crate::support::{errors, kforge, root, run};
use serde_json::Value;
use std::{
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

const PATIENCE: Duration = Duration::from_mins(3);
const PROBLEM: &str = "examples/softmax/problem.py";

/// Quick, and still judged for real.
fn optimize(folder: &Path, problem: &Path, more: &[&str]) -> Command {
    let mut command = kforge();
    command.current_dir(folder).arg("optimize").arg(problem).args(["--run", "run", "--baselines", "eager"]);
    command.args(["--time-budget", "0.3s", "--no-confirm"]).args(more);
    command
}

fn start(command: &mut Command) -> Child {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn end(child: Child) -> Output {
    child.wait_with_output().unwrap()
}

fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < PATIENCE, "no {what} came");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Requests that nobody has answered, oldest first.
fn waiting(mailbox: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(mailbox) else { return Vec::new() };
    let mut found: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.join("request.md").exists() && !path.join("reply.md").exists())
        .filter(|path| !path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.')))
        .collect();
    found.sort();
    found
}

fn answer(request: &Path, text: &str) {
    std::fs::write(request.join("reply.tmp"), text).unwrap();
    std::fs::rename(request.join("reply.tmp"), request.join("reply.md")).unwrap();
}

fn good_reply() -> String {
    let candidate = std::fs::read_to_string(root().join("examples/softmax/cpu_cpp.py")).unwrap();
    format!("Idea: one pass over a row in cache\n\n```python\n{candidate}\n```\n")
}

/// A program that answers every prompt with the same reply, as model `mine` of `models.toml`.
fn model_that_says(folder: &Path, reply: &str) {
    let script = folder.join("model.sh");
    std::fs::write(folder.join("reply.md"), reply).unwrap();
    std::fs::write(&script, format!("cat > /dev/null; cat {}/reply.md\n", folder.display())).unwrap();
    let registry =
        format!("[[model]]\nname = \"mine\"\nwire = \"command\"\ncommand = [\"sh\", \"{}\"]\n", script.display());
    std::fs::write(folder.join("models.toml"), registry).unwrap();
}

fn journal(run: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(run.join("journal.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn types(run: &Path) -> Vec<String> {
    journal(run).iter().map(|line| line["event"]["type"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_mailbox_answers_is_killed_and_resumed_and_never_asked_twice() {
    let folder = tempfile::tempdir().unwrap();
    let (mailbox, run_folder) = (folder.path().join("mail"), folder.path().join("run"));
    std::fs::write(folder.path().join("note.md"), "Remember the marmots.").unwrap();
    std::fs::write(folder.path().join("hook.sh"), "echo '{\"score\": 3.5}'\n").unwrap();
    let hook = "[[hook]]\non = \"evaluation\"\ncommand = [\"sh\", \"hook.sh\"]\n";
    std::fs::write(folder.path().join("kforge.toml"), hook).unwrap();
    let problem = root().join(PROBLEM);
    let mut flags = vec!["--target", "cpu/cpp", "--model", "mailbox:mail", "--iterations", "2"];
    flags.extend(["--prompt-append", "note.md@2", "--aux", "hook.sh"]);
    let mut child = start(&mut optimize(folder.path(), &problem, &flags));
    let first = wait_for("first request", || waiting(&mailbox).pop());
    let prompt = std::fs::read_to_string(first.join("request.md")).unwrap();
    assert!(prompt.contains("class Model(nn.Module)") && prompt.contains("hook.sh"), "{prompt}");
    assert!(!prompt.contains("marmots"), "the note is for iteration 2");

    // Somebody else may look, but not write.
    let second = run(kforge().current_dir(folder.path()).args(["resume", "run"]));
    assert_eq!(second.status.code(), Some(2), "{}", errors(&second));
    assert!(errors(&second).contains("another kforge"), "{}", errors(&second));
    let shown = run(kforge().current_dir(folder.path()).args(["show", "run"]));
    assert_eq!(shown.status.code(), Some(0));

    child.kill().unwrap();
    child.wait().unwrap();
    let resumed = start(kforge().current_dir(folder.path()).args(["resume", "run"]));
    wait_for("adoption", || types(&run_folder).contains(&"resumed".to_owned()).then_some(()));
    answer(&first, &good_reply());
    let analyst = wait_for("analyst", || waiting(&mailbox).pop());
    let prompt = std::fs::read_to_string(analyst.join("request.md")).unwrap();
    assert!(prompt.contains("bottleneck") && prompt.contains("softmax"), "{prompt}");
    answer(
        &analyst,
        r#"{"bottleneck": "memory", "method": "stream the stores", "plan": "use them", "expected_gain": "5 %", "metrics_used": []}"#,
    );
    let last = wait_for("second attempt", || waiting(&mailbox).pop());
    let prompt = std::fs::read_to_string(last.join("request.md")).unwrap();
    assert!(prompt.contains("stream the stores") && prompt.contains("marmots"), "{prompt}");
    answer(&last, "I would rather not.");
    let output = end(resumed);
    assert_eq!(output.status.code(), Some(0), "{}", errors(&output));
    let story = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(story.contains("correct") && story.contains("no_code"), "{story}");

    let events = journal(&run_folder);
    let replies = events.iter().filter(|line| line["event"]["type"] == "replied").count();
    assert_eq!(replies, 3);
    assert_eq!(std::fs::read_dir(&mailbox).unwrap().filter(|e| e.as_ref().unwrap().path().is_dir()).count(), 3);
    let scored = events.iter().find(|line| line["event"]["type"] == "hooked").unwrap();
    assert_eq!(scored["event"]["report"]["score"], 3.5);
    let profiled = events.iter().find(|line| line["event"]["type"] == "profiled").unwrap();
    assert!(!profiled["event"]["profile"]["sources"].as_array().unwrap().is_empty());
    let everything: String = events.iter().map(Value::to_string).collect();
    assert!(!everything.contains("kforge-test-canary"), "a key reached the journal");

    let diff = run(kforge().current_dir(folder.path()).args(["show", "run", "--diff", "all"]));
    let text = String::from_utf8_lossy(&diff.stdout).into_owned();
    assert!(text.contains("+class NewModel") && text.contains("attempt 2: its reply holds no candidate"), "{text}");
    let best = run_folder.join("softmax/best");
    assert!(best.join("candidate.py").exists() && best.join("evidence.json").exists());

    // The winner as one file needs torch and a compiler, but no kforge.
    let standalone = best.join("standalone.py");
    let judged = run(kforge()
        .current_dir(folder.path())
        .args(["eval", "--no-timing", "--no-guard", "--json"])
        .arg(&problem)
        .arg(&standalone));
    assert_eq!(judged.status.code(), Some(0), "{}", errors(&judged));
    let alone = run(plain_python(folder.path()).args(["-c", USE_OF_STANDALONE]).arg(&standalone));
    assert!(alone.status.success(), "{}", errors(&alone));
}

const USE_OF_STANDALONE: &str = r#"
import runpy, sys, torch
model = runpy.run_path(sys.argv[1])["NewModel"](0.7)
x = torch.randn(5, 300)
torch.testing.assert_close(model(x), torch.softmax(x / 0.7, dim=-1))
origin = sys.modules["kforge_rt"].__spec__.origin
assert origin is None, f"the runtime is this file's own, not {origin}"
"#;

/// The one that evaluations use, and nothing of kforge around it.
fn plain_python(scratch: &Path) -> Command {
    let found = String::from_utf8(run(kforge().arg("python")).stdout).unwrap();
    let mut command = Command::new(found.trim());
    command.arg("-I").current_dir(scratch).env("KFORGE_BUILD_DIR", scratch.join("build"));
    command
}

#[test]
fn without_a_model_and_a_recording_the_ways_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let problem = folder.path().join("mine.py");
    std::fs::copy(root().join(PROBLEM), &problem).unwrap();
    let text = std::fs::read_to_string(&problem).unwrap().replace("2048", "2049");
    std::fs::write(&problem, text).unwrap();
    let output = run(&mut optimize(folder.path(), &problem, &[]));
    assert_eq!(output.status.code(), Some(2));
    let said = errors(&output);
    for way in ["API key", "compatible server", "local server", "agent program", "mailbox"] {
        assert!(said.contains(way), "{way} is missing: {said}");
    }
    assert!(!folder.path().join("run").exists(), "nothing is left on disk");
}

#[test]
fn wrong_use_is_said_before_anything_is_asked() {
    let folder = tempfile::tempdir().unwrap();
    let problem = root().join(PROBLEM);
    let cases: [(&[&str], &str); 7] = [
        (&["--model", "gtp-5"], "gpt-5"),
        (&["--model", "mailbox:m", "--executor", "ssh:gpubox"], "name a target with --target"),
        (&["--model", "mailbox:m", "--budget-usd", "1"], "price"),
        (&["--model", "mailbox:m", "--prompt-append", "none.md"], "none.md"),
        (&["--model", "mailbox:m", "--prompt-override", "generator/sytem=x"], "generator/system"),
        (&["--model", "mailbox:m", "--reference-impl", "x.cu"], "--reference-target"),
        (&["--model", "mailbox:m", "--target", "cpu/fortran"], "cpu/cpp"),
    ];
    for (flags, expected) in cases {
        let output = run(&mut optimize(folder.path(), &problem, flags));
        assert_eq!(output.status.code(), Some(2), "{flags:?}: {}", errors(&output));
        assert!(errors(&output).contains(expected), "{flags:?}: {}", errors(&output));
    }
    let none = run(kforge().args(["show", "no/such/run"]));
    assert_eq!(none.status.code(), Some(2), "{}", errors(&none));
}

#[test]
fn a_program_can_be_a_model() {
    let folder = tempfile::tempdir().unwrap();
    model_that_says(folder.path(), &good_reply());
    let mut flags = vec!["--target", "cpu/cpp", "--models-file", "models.toml", "--model", "mine"];
    flags.extend(["--strategy", "single", "--json"]);
    let output = run(&mut optimize(folder.path(), &root().join(PROBLEM), &flags));
    assert_eq!(output.status.code(), Some(0), "{}", errors(&output));
    let events: Vec<Value> =
        String::from_utf8_lossy(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(events.first().unwrap()["event"]["type"], "started");
    assert_eq!(events.last().unwrap()["event"]["type"], "finished");
    let replied = events.iter().find(|line| line["event"]["type"] == "replied").unwrap();
    assert!(replied["event"]["reply"]["cost_usd"].is_null(), "an unknown price is not zero");
    let judged = events.iter().find(|line| line["event"]["type"] == "judged").unwrap();
    assert_eq!(judged["event"]["judged"]["result"]["state"], "correct");
}

/// Three times the work: right, and slower than the framework.
const SLOW: &str = r"
import torch
from torch import nn


class NewModel(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.linear = nn.Linear(n, n)

    def forward(self, x):
        return sum(torch.nn.functional.gelu(self.linear(x)) for _ in range(3)) / 3
";

const PRODUCT: &str = r"
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.linear = nn.Linear(n, n)

    def forward(self, x):
        return torch.nn.functional.gelu(self.linear(x))


def get_inputs():
    return [torch.randn(256, 512)]


def get_init_inputs():
    return [512]
";

/// Whether what was handed out does what the reference does.
const TRY_IT: &str = r#"
import importlib.util, sys, torch
spec = importlib.util.spec_from_file_location("handed_out", sys.argv[1])
found = importlib.util.module_from_spec(spec)
spec.loader.exec_module(found)
reference, fast = found.Model(*found.get_init_inputs()), found.NewModel(*found.get_init_inputs())
fast.load_state_dict(reference.state_dict())
for inputs in (found.get_inputs(), found.get_inputs()):
    with torch.inference_mode():
        expected, got = reference(*inputs), fast(*inputs)
    assert got.dtype == expected.dtype
    torch.testing.assert_close(got, expected, rtol=0.05, atol=0.05)
print("the same")
"#;

#[test]
fn where_pytorch_is_faster_its_best_is_handed_out_and_works() {
    let folder = tempfile::tempdir().unwrap();
    model_that_says(folder.path(), &format!("Idea: thrice\n\n```python\n{SLOW}\n```\n"));
    for (name, text) in [("product.py", PRODUCT), ("try_it.py", TRY_IT)] {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let mut flags = vec!["--target", "cpu/cpp", "--models-file", "models.toml", "--model", "mine"];
    flags.extend(["--strategy", "single", "--precision", "mixed"]);
    let output = run(&mut optimize(folder.path(), &folder.path().join("product.py"), &flags));
    assert_eq!(output.status.code(), Some(0), "{}", errors(&output));
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(told.contains("PyTorch itself is faster than every kernel found"), "{told}");
    let handed_out = folder.path().join("run/product/best/pytorch.py");
    let python = std::env::var_os("KFORGE_PYTHON").unwrap_or_else(|| "python3".into());
    let tried = run(std::process::Command::new(python).arg(folder.path().join("try_it.py")).arg(&handed_out));
    assert!(String::from_utf8_lossy(&tried.stdout).contains("the same"), "{}", errors(&tried));
}

/// The first command of the README, on every problem that has a recording; here without its timing.
#[test]
fn every_recording_answers_its_problem() {
    let folder = tempfile::tempdir().unwrap();
    let names = |folder: &Path| -> Vec<String> {
        let entries = std::fs::read_dir(folder).unwrap();
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect()
    };
    let recordings = root().join("crates/kforge/recordings");
    let mut targets = Vec::new();
    for name in names(&recordings) {
        for target in names(&recordings.join(&name)) {
            let examples = if target == "cpu-cpp" { "examples" } else { "examples/gpu" };
            let problem = root().join(examples).join(&name).join("problem.py");
            let output = run(&mut optimize(folder.path(), &problem, &["--estimate"]));
            assert_eq!(output.status.code(), Some(0), "{name}: {}", errors(&output));
            let said = errors(&output);
            let expected = format!("the target is {}, which the recorded replies are for", target.replace('-', "/"));
            assert!(said.contains(&expected), "{name}: {said}");
            targets.push(target);
        }
    }
    assert!(targets.len() >= 5 && targets.iter().any(|target| target == "nvidia-cuda"), "{targets:?}");
}

#[test]
fn recorded_replies_lead_to_a_verified_kernel() {
    let folder = tempfile::tempdir().unwrap();
    let output = run(&mut optimize(folder.path(), &root().join(PROBLEM), &["--iterations", "3"]));
    assert_eq!(output.status.code(), Some(0), "{}", errors(&output));
    let story = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(story.contains("recorded") && story.contains("correct"), "{story}");
    let judged: Vec<Value> =
        journal(&folder.path().join("run")).into_iter().filter(|line| line["event"]["type"] == "judged").collect();
    assert_eq!(judged.len(), 3);
}
