//! Sources made to break the checker: it must neither panic, nor overflow the stack, nor take for ever.

use std::time::{Duration, Instant};

use kforge_guard::{MAX_SOURCE_BYTES, Settings, check, language, rules};
use proptest::prelude::*;

/// Pieces that the rules look at, to be put together at random.
const PIECES: &[&str] = &[
    "import torch",
    "import os as o",
    "from os import system",
    "torch",
    ".backends",
    ".allclose",
    " = ",
    "getattr(",
    "setattr(",
    "torch, ",
    "\"sys\" + ",
    "\"",
    "'''",
    "f\"{",
    "}\"",
    "r\"",
    "\\x7",
    "\\",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    ":",
    ",",
    ";",
    "\n",
    "\n    ",
    "\n        ",
    "try:",
    "except E as e:",
    "finally:",
    "return ",
    "def f(x=torch, *a, **k):",
    "class A(torch.Tensor):",
    "lambda: ",
    "with suppress(E):",
    "for x in ",
    "if x == ",
    "else",
    "subprocess.run([",
    "os.environ",
    "[\"X\"]",
    "global x",
    "x += 1",
    "del ",
    "@",
    "#include <a>",
    "/* ",
    "//",
    "R\"(",
    "system(",
    "fork",
    "::",
    "->",
    "é",
    "\u{1d41e}",
    "\u{0}",
    "\r",
    "\t",
    "import ",
    "from . import *",
    "from x import *",
    "*",
    "**",
    "yield",
    "await ",
    ":=",
    "match x:",
    "case ",
    "exec ",
    "print ",
    "import kforge_rt\n",
    "kforge_rt.build(",
    "lang=",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_survived(source in "\\PC{0,200}") {
        let _ = check(&source, &Settings::default());
    }

    #[test]
    fn any_mixture_of_pieces_is_survived(picks in proptest::collection::vec(0..PIECES.len(), 0..60)) {
        let source: String = picks.into_iter().map(|i| PIECES[i]).collect();
        let _ = language(&source);
        let report = check(&source, &Settings::default());
        for finding in report.findings {
            prop_assert!(finding.line >= 1 && finding.column >= 1);
        }
    }
}

fn quickly(what: &str, source: &str) {
    let start = Instant::now();
    let report = check(source, &Settings::default());
    let _ = language(source);
    let took = start.elapsed();
    // Debug builds on a busy machine are slow; work that grows with the square would take minutes.
    assert!(took < Duration::from_mins(1), "{what} took {took:?}");
    assert!(report.findings.len() <= source.lines().count() * rules().len(), "{what}");
}

fn lines(count: usize, line: impl Fn(usize) -> String) -> String {
    (0..count).map(line).collect()
}

#[test]
fn hostile_sources_take_bounded_work() {
    let long = "x".repeat(40_000);
    let cases = [
        ("open brackets", "(".repeat(300_000)),
        ("closed brackets", format!("x = {}1{}", "[".repeat(100_000), "]".repeat(100_000))),
        ("attributes", format!("import torch\ntorch{} = 1", ".a".repeat(100_000))),
        ("sum of strings", format!("x = ''{}", " + 'a'".repeat(50_000))),
        ("indentation", lines(2000, |i| format!("{}if x:\n", " ".repeat(i % 400)))),
        ("doubling names", lines(2000, |i| format!("a{} = a{} + a{}\n", i, i + 1, i + 1))),
        ("one long string often", format!("s = '{long};'\n{}", "f(s + s)\n".repeat(20_000))),
        ("many names", lines(20_000, |i| format!("import m{i} as x\nx = x or y{i}\n"))),
        ("one long line", "torch.x = 1; ".repeat(40_000)),
        ("unterminated string", format!("x = '''{}", "{;".repeat(200_000))),
        ("quotes", "\"".repeat(300_000)),
        ("lambdas", "lambda: ".repeat(50_000)),
        ("handlers", format!("def f():\n{}", "  try:\n    g()\n  except E:\n    pass\n".repeat(10_000))),
        ("tuples as targets", format!("{}a{} = 1", "(a,".repeat(90_000), ")".repeat(90_000))),
        ("not", "not ".repeat(100_000)),
        (
            "builds in builds",
            format!(
                "from kforge_rt import build\n{}{}{}",
                "build(s, [".repeat(190),
                "'a', ".repeat(100_000),
                "])".repeat(190)
            ),
        ),
    ];
    for (what, source) in cases {
        quickly(what, &source);
    }
}

#[test]
fn a_source_over_the_limit_is_refused_unread() {
    let source = "#".repeat(MAX_SOURCE_BYTES + 1);
    let report = check(&source, &Settings { off: vec!["too_large".to_owned()], ..Settings::default() });
    assert_eq!(report.findings.len(), 1);
    assert_eq!(report.findings[0].rule, "too_large");
    assert_eq!(report.findings[0].excerpt.len(), 160);
    assert!(!check(&source[1..], &Settings::default()).is_rejected());
}
