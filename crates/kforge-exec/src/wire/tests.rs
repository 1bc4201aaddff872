//! The harness has the same numbers and names: its modules are asked for theirs.

use super::{
    messages::{Ask, Fork, Inputs, Limit, Order, Policy},
    names,
    op::{self, Look},
    *,
};
use crate::{
    judge::{arm::Side, spec},
    process::run_bounded,
};
use kforge_types::Contract;
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::{collections::BTreeMap, path::Path, process::Command, time::Duration};

const TELLS: &str = r"
import json, sys
sys.path.insert(0, sys.argv[1])
from kforge_harness.shared import names, wire
named = lambda members: {member.name: member.value for member in members}
print(json.dumps({
    'numbers': [wire.MAGIC, wire.RECORD, wire.NULL_ROW, wire.DETAIL_BYTES, wire.CLAIMS_AT, wire.SLOT_ALIGN,
                wire.GATE_BYTES, wire.MAX_JSON, wire.MAX_FDS],
    'words': [wire.READY, wire.OK, names.MISSING],
    'ops': {op.name: [op.value, wire.ARGUMENTS.get(op), wire.ANSWERS[op].__name__, wire.ANSWERS[op]._fields]
            for op in wire.Op},
    'looks': named(wire.Look),
    'distributions': names.DISTRIBUTIONS, 'how': names.HOW, 'switches': names.SWITCHES, 'failures': names.FAILURES,
    'limits': names.LIMITS, 'sides': names.SIDES, 'forks': names.FORKS, 'policy': names.POLICY,
    'orders': names.ORDERS, 'asks': {**names.REQUESTS, **names.DEVICE_REQUESTS}, 'roles': names.ROLES,
    'variant': names.VARIANT,
}))
";

/// What the harness says of itself.
fn harness() -> Value {
    let python = std::env::var_os("KFORGE_PYTHON").unwrap_or_else(|| "python3".into());
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("harness");
    let mut command = Command::new(python);
    command.args(["-IBc", TELLS]).arg(folder);
    let told = run_bounded(&mut command, Duration::from_mins(1), 1 << 20).unwrap();
    assert!(told.status.success(), "{}", told.stderr_text());
    serde_json::from_str(&told.stdout_text()).unwrap()
}

/// `LoadWeights` as `LOAD_WEIGHTS`.
fn shouted(name: &str) -> String {
    let mut made = String::new();
    for c in name.chars() {
        if c.is_ascii_uppercase() && !made.is_empty() {
            made.push('_');
        }
        made.push(c.to_ascii_uppercase());
    }
    made
}

/// Names of the fields of messages by the name that tells one message from another.
fn fields<T: Serialize>(key: &str, messages: &[T]) -> Map<String, Value> {
    let mut found = Map::new();
    for message in messages {
        let Value::Object(mut message) = serde_json::to_value(message).unwrap() else { panic!("no object") };
        let name = message.remove(key).unwrap().as_str().unwrap().to_owned();
        let known: &mut Vec<Value> = found.entry(name).or_insert_with(|| json!([])).as_array_mut().unwrap();
        for field in message.keys().map(|field| json!(field)) {
            if !known.contains(&field) {
                known.push(field);
            }
        }
    }
    found
}

/// The same lists whatever their order, and without the marks of what may be missing.
fn sorted(lists: &Value) -> Value {
    let list = |list: &Value| {
        let mut names: Vec<&str> =
            list.as_array().unwrap().iter().map(|name| name.as_str().unwrap().trim_end_matches('?')).collect();
        names.sort_unstable();
        json!(names)
    };
    match lists {
        Value::Object(table) => table.iter().map(|(name, fields)| (name.clone(), list(fields))).collect(),
        other => list(other),
    }
}

fn asks<'a>(contract: &'a Contract, path: &'a Path) -> Vec<Ask<'a>> {
    let both = [Inputs::Id(""), Inputs::Fresh(1)];
    let mut all = vec![
        Ask::Load { path },
        Ask::Look { contract },
        Ask::Open { contract, store: path, session_store: path, secret: "", fresh: true, reduced: false },
        Ask::Attach { places: 1, input_stride: 1 },
        Ask::Set { variant: 0, distribution: "own", number: 0 },
        Ask::Draw { distribution: "own", truths: &[] },
        Ask::CompareRow { calls: 1, with_baseline: true },
        Ask::Compare { id: "", side: 0, remember: false, again: false },
        Ask::Lane { gone: &[] },
        Ask::Export { id: "" },
        Ask::Shut { lane: 0, count: 1 },
        Ask::Take { lane: 0, cell: 1, side: 0, variant: 0, calls: &[], segments: &[] },
        Ask::Stamp { lane: 0, fill: true },
        Ask::Hold { lane: 0 },
        Ask::Held { lane: 0 },
        Ask::Left { lane: 0 },
        Ask::Wipe { lane: 0 },
        Ask::Alive,
        Ask::Device,
    ];
    for inputs in both {
        all.push(Ask::Lay { lane: 0, cold: false, inputs });
        all.push(Ask::Reveal { lane: 0, cold: false, inputs });
        all.push(Ask::Unchanged { lane: 0, inputs });
    }
    all
}

fn policy(path: &Path) -> Policy<'_> {
    Policy {
        scratch: path,
        scratch_bytes: 0,
        memory_bytes: 0,
        process_limit: 0,
        readable: &[],
        writable: &[],
        seccomp: Vec::new(),
        tool_seccomp: Vec::new(),
        namespaces: true,
        device: "cpu",
    }
}

#[test]
fn numbers_of_the_records_are_the_same() {
    let told = harness();
    let numbers = json!([MAGIC, RECORD, NULL_ROW, DETAIL_BYTES, CLAIMS_AT, SLOT_ALIGN, GATE_BYTES, MAX_JSON, MAX_FDS]);
    assert_eq!(told["numbers"], numbers);
    assert_eq!(told["words"], json!([READY, OK, names::MISSING]));
    let ops: Map<String, Value> = op::ALL
        .iter()
        .map(|(name, code, argument, answer, numbers)| (shouted(name), json!([code, argument, answer, numbers])))
        .collect();
    assert_eq!(told["ops"], Value::Object(ops));
    let looks = [Look::Report, Look::Disassemble, Look::Start, Look::Collect, Look::Resources, Look::Sass];
    let looks: Map<String, Value> =
        looks.iter().map(|look| (shouted(&format!("{look:?}")), json!(*look as u64))).collect();
    assert_eq!(told["looks"], Value::Object(looks));
}

#[test]
fn names_are_the_same() {
    let told = harness();
    assert_eq!(told["distributions"], json!(names::DISTRIBUTIONS));
    assert_eq!(told["how"], json!(names::HOW));
    assert_eq!(told["switches"], json!(names::SWITCHES));
    assert_eq!(told["failures"], json!(names::FAILURES));
    assert_eq!(told["limits"], json!([Limit::Processes, Limit::Memory, Limit::Disk]));
    let mut sides = ["", ""];
    sides[Side::Candidate as usize] = "candidate";
    sides[Side::Baseline as usize] = "baseline";
    assert_eq!(told["sides"], json!(sides));
}

#[test]
fn fields_of_messages_are_the_same() {
    let told = harness();
    let (path, env, contract) = (Path::new("x"), BTreeMap::new(), Contract::default());
    let forks = [
        Fork::Referee { env: &env, python_path: &[], cwd: path, threads: 1, place: "cpu" },
        Fork::Supervisor { policy: policy(path) },
        Fork::Zygote { env: &env },
    ];
    let same = |what: &str, ours: Map<String, Value>| {
        assert_eq!(sorted(&Value::Object(ours)), sorted(&told[what]), "{what}");
    };
    same("forks", fields("role", &forks));
    let Value::Object(policy) = serde_json::to_value(policy(path)).unwrap() else { panic!("no object") };
    assert_eq!(sorted(&json!(policy.keys().collect::<Vec<_>>())), sorted(&told["policy"]));
    let orders = [
        Order::Spawn { id: 1, spec: &Value::Null, env: &env },
        Order::Freeze,
        Order::Thaw,
        Order::Count,
        Order::Clear { keep: &[] },
    ];
    same("orders", fields("do", &orders));
    same("asks", fields("do", &asks(&contract, path)));
    assert_eq!(sorted(&told["variant"]), sorted(&json!(spec::TOLD)));
}
