//! The hostile corpus as files: each case of the tables put into its template, beside the files that are their own.
//!
//! `corpus/hostile/README.md` has the form of tables and templates.

use crate::support::{python_files, root};
use serde::Deserialize;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
    path::{Path, PathBuf},
};

/// One candidate that is a template and a few lines.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Case {
    tries: String,
    #[serde(default = "row_softmax")]
    problem: String,
    expect: String,
    expect_unguarded: Option<String>,
    #[serde(default = "softmax")]
    template: String,
    /// By the place in the template where they go.
    #[serde(flatten)]
    lines: BTreeMap<String, String>,
}

fn row_softmax() -> String {
    "row_softmax".to_owned()
}

fn softmax() -> String {
    "softmax".to_owned()
}

impl Case {
    /// The header, and the template with the case's lines at their places, indented as these are.
    fn expand(&self, template: &str) -> Result<String, String> {
        let mut text = format!("\"\"\"{}\n\nproblem: {}\nexpect: {}\n", self.tries, self.problem, self.expect);
        if let Some(unguarded) = &self.expect_unguarded {
            let _ = writeln!(text, "expect-unguarded: {unguarded}");
        }
        text.push_str("\"\"\"\n\n");
        let mut left: BTreeSet<&str> = self.lines.keys().map(String::as_str).collect();
        for line in template.lines() {
            let (indent, rest) = line.split_at(line.len() - line.trim_start().len());
            let Some(place) = rest.strip_prefix('$') else {
                let _ = writeln!(text, "{line}");
                continue;
            };
            let (place, usual) = place.split_once(": ").unwrap_or((place, ""));
            left.remove(place);
            for line in self.lines.get(place).map_or(usual, String::as_str).lines() {
                let _ = writeln!(text, "{}{line}", if line.is_empty() { "" } else { indent });
            }
        }
        if self.lines.is_empty() || !left.is_empty() {
            return Err(format!("no place in the template `{}` for its lines: {left:?}", self.template));
        }
        Ok(text.trim_end().to_owned() + "\n")
    }
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Every case of the tables, as the text of its file.
fn expanded() -> BTreeMap<String, String> {
    let hostile = root().join("corpus/hostile");
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(hostile.join("cases")).unwrap() {
        let table = entry.unwrap().path();
        let cases: BTreeMap<String, Case> =
            toml::from_str(&read(&table)).unwrap_or_else(|error| panic!("{}: {error}", table.display()));
        for (name, case) in cases {
            let template = read(&hostile.join("templates").join(&case.template).with_extension("txt"));
            let text = case.expand(&template).unwrap_or_else(|error| panic!("{}: {name}: {error}", table.display()));
            assert!(found.insert(name.clone(), text).is_none(), "{name} is in two tables");
        }
    }
    found
}

/// All candidates as files, in a folder that goes with the value.
pub(crate) fn candidates() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in expanded() {
        std::fs::write(folder.path().join(name).with_extension("py"), text).unwrap();
    }
    for entry in std::fs::read_dir(root().join("corpus/hostile/candidates")).unwrap() {
        let file = entry.unwrap().path();
        let copy = folder.path().join(file.file_name().unwrap());
        assert!(!copy.exists(), "{} is in a table too", file.display());
        std::fs::copy(&file, copy).unwrap();
    }
    folder
}

/// One case as a file in `folder`.
pub(crate) fn candidate(name: &str, folder: &Path) -> PathBuf {
    let file = folder.join(name).with_extension("py");
    std::fs::write(&file, &expanded()[name]).unwrap();
    file
}

#[test]
fn places_are_filled_with_the_indent_that_they_have() {
    let case: Case = toml::from_str(
        r#"
tries = "Nothing."
expect = "correct"
before = """
if x:

    y
"""
after = """
"""
"#,
    )
    .unwrap();
    let text = case.expand("$imports\nclass A:\n    $before\n    $after: z\n    $return: return y\n\n$end\n").unwrap();
    let header = "\"\"\"Nothing.\n\nproblem: row_softmax\nexpect: correct\n\"\"\"\n\n";
    assert_eq!(text, format!("{header}class A:\n    if x:\n\n        y\n    return y\n"));
    let error = case.expand("$before\n").unwrap_err();
    assert!(error.contains("{\"after\"}"), "{error}");
}

#[test]
#[ignore = "prints the cases that KFORGE_CASE names, as files"]
fn print_cases() {
    let folder = candidates();
    let named = std::env::var_os("KFORGE_CASE").is_some();
    for file in python_files(folder.path()) {
        println!("# {}", file.file_name().unwrap().display());
        if named {
            println!("{}", String::from_utf8_lossy(&std::fs::read(&file).unwrap()));
        }
    }
}
