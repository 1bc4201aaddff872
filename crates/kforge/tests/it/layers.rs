//! Modules of the product depend downwards only: this table is the one in ARCHITECTURE.md.

use crate::support::root;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

const MAY_USE: [(&str, &[&str]); 16] = [
    ("usage", &[]),
    ("text", &[]),
    ("target", &[]),
    ("config", &[]),
    ("refusal", &[]),
    ("job", &["config", "target", "text", "usage"]),
    ("reply", &["text"]),
    ("models", &["usage"]),
    ("prompt", &["reply", "target", "text"]),
    ("run", &["reply", "usage"]),
    ("search", &["run"]),
    ("driver", &["prompt", "refusal", "reply", "run", "search", "target"]),
    ("executor", &["driver", "job", "text", "usage"]),
    ("worker", &["driver", "job"]),
    ("view", &["job", "run", "text"]),
    (
        "cli",
        &[
            "config", "driver", "executor", "job", "models", "prompt", "refusal", "reply", "run", "search", "target",
            "text", "usage", "view", "worker",
        ],
    ),
];

fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() {
            found.extend(sources(&entry));
        } else if entry.extension().is_some_and(|extension| extension == "rs") {
            found.push(entry);
        }
    }
    found
}

/// Every name right after `crate::`, also inside of braces.
fn used(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    for (at, _) in text.match_indices("crate::") {
        let rest = &text[at + "crate::".len()..];
        let Some(inside) = rest.strip_prefix('{') else {
            names.push(rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect());
            continue;
        };
        let mut depth = 1;
        let mut name = String::new();
        for c in inside.chars() {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                ',' if depth == 1 => names.push(std::mem::take(&mut name)),
                _ if depth == 1 && !c.is_whitespace() => name.push(c),
                _ => {}
            }
            if depth == 0 {
                names.push(std::mem::take(&mut name));
                break;
            }
        }
    }
    names.into_iter().map(|name: String| name.split("::").next().unwrap_or_default().to_owned()).collect()
}

#[test]
fn modules_depend_downwards_only() {
    let src = root().join("crates/kforge/src");
    let table: BTreeMap<&str, &[&str]> = MAY_USE.into_iter().collect();
    let mut wrong = Vec::new();
    for file in sources(&src) {
        let path = file.strip_prefix(&src).unwrap();
        let module = path.components().next().unwrap().as_os_str().to_string_lossy().replace(".rs", "");
        if module == "main" {
            continue;
        }
        let allowed = table.get(module.as_str()).unwrap_or_else(|| panic!("{module} is not in the table"));
        for name in used(&std::fs::read_to_string(&file).unwrap()) {
            let known = table.contains_key(name.as_str());
            if known && name != module && !allowed.contains(&name.as_str()) {
                wrong.push(format!("{} uses crate::{name}", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
