//! Modules of the product depend downwards only: this table is the one in ARCHITECTURE.md. All modules are where their
//! names say.

use crate::support::root;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

const MAY_USE: [(&str, &[&str]); 19] = [
    ("usage", &[]),
    ("text", &[]),
    ("target", &[]),
    ("environment", &[]),
    ("refusal", &[]),
    ("config", &["environment"]),
    ("job", &["config", "target", "text", "usage"]),
    ("reply", &["text"]),
    ("models", &["usage"]),
    ("executor", &["environment", "job", "refusal", "text", "usage"]),
    ("evaluator", &["config", "executor", "job", "refusal", "target", "text", "usage"]),
    ("prompt", &["reply", "target", "text"]),
    ("run", &["reply", "usage"]),
    ("search", &["run"]),
    ("driver", &["evaluator", "prompt", "reply", "run", "search", "target"]),
    ("setup", &["config", "driver", "evaluator", "models", "prompt", "run", "search", "target", "usage"]),
    ("worker", &["evaluator", "job"]),
    ("view", &["job", "run", "text"]),
    (
        "cli",
        &[
            "config",
            "driver",
            "environment",
            "evaluator",
            "job",
            "models",
            "run",
            "setup",
            "target",
            "usage",
            "view",
            "worker",
        ],
    ),
];

/// Only `cli` is the program; what it calls may be called by others too.
const ONLY_THE_PROGRAM: [&str; 6] =
    ["println!", "eprintln!", "io::stdout()", "stderr().lock()", "process::exit", "set_current_dir"];

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
        if ["main", "lib"].contains(&module.as_str()) {
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

#[test]
fn the_library_prints_nothing_and_leaves_the_process_as_it_is() {
    let src = root().join("crates/kforge/src");
    let mut wrong = Vec::new();
    for file in sources(&src) {
        let path = file.strip_prefix(&src).unwrap();
        // A benchmark prints its figures.
        if path.starts_with("cli") || path.ends_with("bench.rs") {
            continue;
        }
        let text = std::fs::read_to_string(&file).unwrap();
        let found = ONLY_THE_PROGRAM.iter().filter(|word| text.contains(**word));
        wrong.extend(found.map(|word| format!("{} has {word}", path.display())));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A module that a macro declares, or that is elsewhere by `#[path]`, is one that `cargo fmt` and readers do not find.
#[test]
fn every_source_is_a_module_where_its_name_says() {
    let crates = root().join("crates");
    let folders = std::fs::read_dir(&crates).unwrap().map(|entry| entry.unwrap().path());
    let files: Vec<PathBuf> = folders
        .flat_map(|one| [one.join("src"), one.join("tests/it")])
        .filter(|folder| folder.exists())
        .flat_map(|folder| sources(&folder))
        .collect();
    assert!(files.len() >= SOURCES, "{} files", files.len());
    let wrong: Vec<&PathBuf> = files.iter().filter(|file| !is_declared(file)).collect();
    assert!(wrong.is_empty(), "no `mod name;` where it is to be looked for: {wrong:#?}");
}

/// How many there are at least, so that looking in a wrong place fails.
const SOURCES: usize = 250;

/// Whether the file one level up declares it, in a line of its own.
fn is_declared(file: &Path) -> bool {
    let stem = file.file_stem().unwrap().to_string_lossy().into_owned();
    if ["main", "lib"].contains(&stem.as_str()) {
        return true;
    }
    let folder = file.parent().unwrap();
    let (name, folder) = match stem.as_str() {
        "mod" => (folder.file_name().unwrap().to_string_lossy().into_owned(), folder.parent().unwrap()),
        _ => (stem, folder),
    };
    let above = ["mod.rs", "lib.rs", "main.rs"].map(|name| folder.join(name)).into_iter();
    let declaration = format!("mod {name};");
    above.chain([folder.with_extension("rs")]).filter_map(|path| std::fs::read_to_string(path).ok()).any(|text| {
        let lines: Vec<&str> = text.lines().collect();
        let at = lines.iter().position(|line| *line == declaration || line.ends_with(&format!(" {declaration}")));
        at.is_some_and(|at| at == 0 || !lines[at - 1].starts_with("#[path"))
    })
}
