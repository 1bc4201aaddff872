//! What is refused before anything runs, and what settings become.

use super::*;
use crate::{
    config::{self, Resolved, Settings as Layer},
    job::JobOptions,
};
use kforge_types::{Kind, State};

const SOURCE: &str =
    "import torch\nfrom torch import nn\n\n\nclass NewModel(nn.Module):\n    def forward(self, x):\n        return x\n";

fn resolved(flags: Layer) -> Resolved {
    Layer::resolve(flags, std::path::Path::new("/nonexistent"), None).unwrap().0
}

fn request(flags: Layer) -> (tempfile::TempDir, Request) {
    let folder = tempfile::tempdir().unwrap();
    let problem = folder.path().join("sums.py");
    std::fs::write(&problem, "class Model: pass\n").unwrap();
    let settings = resolved(flags);
    let request = Request {
        problem,
        target: "cpu/cpp".parse().unwrap(),
        rules: settings.rules,
        evaluation: settings.evaluation,
        purpose: Purpose::Judge,
        baselines: Vec::new(),
        python: None,
        carry: Vec::new(),
        tag: String::new(),
    };
    (folder, request)
}

fn refusal(request: &Request) -> String {
    let error = Evaluator::open(request).err().unwrap();
    assert!(error.is::<crate::usage::Usage>(), "{error:#}");
    error.to_string()
}

#[test]
fn a_candidate_that_never_runs_has_its_verdict_at_once() {
    let mut rules = Settings::default();
    rules.banned.push("torch.nn.Module".parse().unwrap());
    let cases: [(&[u8], Kind); 5] = [
        (b"", Kind::Empty),
        (b"# nothing but words\n", Kind::Empty),
        (b"x = 1\0", Kind::Syntax),
        (b"\xff\xfe", Kind::Syntax),
        (SOURCE.as_bytes(), Kind::Guardrail),
    ];
    let evaluator = Evaluator::scripted(rules);
    for (source, kind) in cases {
        let result = evaluator.admit("k.py", source).unwrap_err();
        assert_eq!((result.state, result.kind), (State::GenerationFailure, Some(kind)), "{}", result.reason);
        assert_eq!((result.candidate_file.as_str(), result.findings.is_empty()), ("k.py", kind != Kind::Guardrail));
        assert_eq!(result.hash, kforge_types::content_hash(&[b"class Model: pass\n".as_slice(), source]));
    }
    let candidate = Evaluator::scripted(Settings::default()).admit("k.py", SOURCE.as_bytes()).unwrap();
    assert_eq!((candidate.name(), candidate.source()), ("k.py", SOURCE));
}

#[test]
fn what_only_the_other_side_can_decide_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let executor = Some(config::Executor::Exchange(folder.path().to_owned()));
    let (_problem, asked) = request(Layer { executor, ..Layer::default() });
    assert!(Evaluator::open(&asked).is_ok());
    let mut other = asked.clone();
    other.evaluation.device = Some(1);
    assert!(refusal(&other).contains("give --device to `kforge worker drain`"));
    let mut other = asked.clone();
    other.python = Some("python3".into());
    assert!(refusal(&other).contains("give --python to `kforge worker drain`"));
    let mut other = asked;
    other.evaluation.executor = config::Executor::InPlace;
    other.carry = vec!["data".into()];
    assert!(refusal(&other).contains("--carry is for exchange:DIR"));
}

#[test]
fn what_cannot_be_read_is_named() {
    let (_folder, asked) = request(Layer::default());
    let mut other = asked.clone();
    other.problem = "no/such/problem.py".into();
    assert!(refusal(&other).starts_with("cannot read the problem no/such/problem.py"));
    let mut other = asked.clone();
    other.target = "nvidia/cobol".parse().unwrap();
    assert!(refusal(&other).contains("this version knows"));
    let mut other = asked.clone();
    other.baselines = vec!["no/such/kernel.py".into()];
    assert!(refusal(&other).starts_with("cannot read the baseline no/such/kernel.py"));
    let mut other = asked;
    other.rules.guard_file = Some("no/such/guard.toml".into());
    assert!(refusal(&other).contains("there is no guard file"));
}

#[test]
fn settings_become_the_options_that_travel() {
    let flags = Layer {
        deterministic: Some(true),
        own_operators: Some(true),
        fresh: Some(true),
        no_namespaces: Some(true),
        redraws: Some(2),
        arch: Some("sm_90a".to_owned()),
        timeout: Some("3m".parse().unwrap()),
        require_sandbox: Some(config::Sandbox::Partial),
        precision: Some(config::Precision::Mixed),
        ..Layer::default()
    };
    let target = "cpu/cpp".parse().unwrap();
    let of = |flags, purpose| JobOptions::of(&resolved(flags).evaluation, &target, Vec::new(), purpose);
    let judged = of(flags.clone(), Purpose::Judge);
    assert_eq!((judged.timeout_s, judged.problem_timeout_s, judged.time_budget_s), (180.0, 180.0, 1.0));
    assert_eq!((judged.redraws, judged.arch.as_deref(), judged.namespaces), (2, Some("sm_90a"), false));
    assert_eq!(judged.require_sandbox, kforge_types::SandboxLevel::Partial);
    assert!(judged.fresh && !judged.kept_baselines && !judged.no_timing);
    let contract = &judged.contract;
    assert_eq!((contract.deterministic, contract.operators), (Some(true), Some(kforge_types::Operators::Own)));
    assert_eq!(contract.mul, Some(kforge_types::Precision::Bf16));
    let plain = of(Layer::default(), Purpose::Judge);
    assert!(plain.contract == Contract::default() && plain.kept_baselines && !plain.fresh);
    assert_eq!((plain.timeout_s, plain.problem_timeout_s), (120.0, 120.0));
    let profiled = of(flags, Purpose::Profile);
    assert!(profiled.no_timing && profiled.kept_baselines && profiled.fresh);
    assert_eq!(profiled.baselines, config::Baselines::Eager);
    assert!(of(Layer::default(), Purpose::Verify).no_timing);
}
