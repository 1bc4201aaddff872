//! Patterns that users ban and require.

use kforge_guard::{Pattern, Report, Settings, check};
use proptest::prelude::*;

const SOURCE: &str = r#""""Documentation that names torch.matmul() and half."""
import torch as t
import torch.nn.functional as F
from torch import matmul as mm, nn

# F.softmax(x) and re_banned_word in a comment
KERNEL = """
#include <cublas_v2.h>
/* float4 in a comment */
void run(float* x) { std::thread worker; auto y = reinterpret_cast<float2*>(x); cublasSgemm(x); }
"""


class ModelNew(nn.Module):
    """re_banned_word"""

    def forward(self, x):
        y = F.softmax(x.half(), dim=-1)
        dtype = t.bfloat16
        g = getattr(t, "mat" + "mul")
        return mm(y, y)
"#;

fn patterns(texts: &[&str]) -> Vec<Pattern> {
    texts.iter().map(|text| text.parse().unwrap_or_else(|error| panic!("{error}"))).collect()
}

fn banned(texts: &[&str]) -> Report {
    check(SOURCE, &Settings { banned: patterns(texts), ..Settings::default() })
}

fn lines(report: &Report, rule: &str) -> Vec<usize> {
    report.findings.iter().filter(|finding| finding.rule == rule).map(|finding| finding.line).collect()
}

#[test]
fn a_ban_points_at_every_line_and_sees_through_aliases() {
    let cases: [(&str, &[usize]); 20] = [
        ("torch.matmul", &[4, 20, 21]),
        ("torch.matmul()", &[21]),
        ("torch.mat*", &[4, 20, 21]),
        ("torch.nn.functional.*", &[18]),
        ("torch.nn.functional", &[3, 18]),
        ("torch.nn.functional.softmax()", &[18]),
        ("torch.nn.functional.soft", &[]),
        ("torch.bfloat16", &[19]),
        ("torch.bfloat16()", &[]),
        ("getattr", &[20]),
        (".half", &[18]),
        (".half()", &[18]),
        (".bfloat16()", &[]),
        ("cpp:float2", &[10]),
        ("cpp:float4", &[]),
        ("cpp:std::thread", &[10]),
        ("cpp:cublas*", &[8, 10]),
        ("re:re_banned_word", &[]),
        (r"re:^\s+dtype = t\.\w+16$", &[19]),
        ("re:softmax|half", &[18]),
    ];
    for (pattern, expected) in cases {
        let report = banned(&[pattern]);
        assert_eq!(lines(&report, "ban"), expected, "{pattern}");
        assert_eq!(report.is_rejected(), !expected.is_empty(), "{pattern}");
        for finding in report.findings.iter().filter(|finding| finding.rule == "ban") {
            assert!(finding.message.contains(&format!("`{pattern}`")), "{}", finding.message);
            assert!(finding.message.ends_with('.') && !finding.message.contains('\n'));
        }
    }
}

#[test]
fn a_matrix_product_is_one_however_it_is_written() {
    let source = "import torch\n\n@torch.no_grad()\ndef f(a, b):\n    c = a @ b\n    c @= b\n    return c - b\n";
    let found =
        |pattern: &str| lines(&check(source, &Settings { banned: patterns(&[pattern]), ..Settings::default() }), "ban");
    for pattern in ["torch.matmul", "torch.matmul()", "torch.mat*"] {
        assert_eq!(found(pattern), [5, 6], "{pattern}");
    }
    for pattern in ["torch.mm", "torch.bmm()", ".matmul", "torch.matmul.x"] {
        assert_eq!(found(pattern), Vec::<usize>::new(), "{pattern}");
    }
}

#[test]
fn what_is_required_must_be_there() {
    let required = |texts: &[&str]| check(SOURCE, &Settings { required: patterns(texts), ..Settings::default() });
    let there = ["torch.matmul", "torch.nn.functional.softmax()", ".half()", "cpp:cublasSgemm", "re:dim=-1"];
    assert_eq!(lines(&required(&there), "require"), Vec::<usize>::new());
    let missing = ["triton.jit", "torch.mm()", ".double()", "cpp:float4", "re:re_banned_word"];
    let report = required(&missing);
    assert_eq!(lines(&report, "require").len(), missing.len());
    for (finding, pattern) in report.hard().zip(missing) {
        assert!(finding.message.contains(&format!("`{pattern}`")), "{}", finding.message);
    }
}

#[test]
fn two_patterns_on_one_line_are_two_findings() {
    assert_eq!(lines(&banned(&[".half()", "torch.nn.functional.*"]), "ban"), [18, 18]);
}

#[test]
fn what_is_no_pattern_says_which_forms_there_are() {
    let wrong = [
        "",
        "()",
        ".",
        "*",
        "torch..mm",
        "torch.mm(",
        "a b",
        ".a.b",
        "to*ch.mm",
        "cpp:",
        "cpp:a b",
        "cpp:a::",
        "re:",
        "re:(",
        "re:x*",
        "re:a{1000}{1000}",
        "re:a\nb",
        "1torch",
    ];
    for text in wrong {
        let error = text.parse::<Pattern>().expect_err(text).to_string();
        assert!(error.starts_with(&format!("`{text}` is not a pattern: ")), "{error}");
        for form in ["torch.matmul", ".half()", "cpp:WORD", "re:REGEX"] {
            assert!(error.contains(form), "{error}");
        }
    }
    assert!("x".repeat(2000).parse::<Pattern>().unwrap_err().to_string().len() < 800);
}

#[test]
fn a_pattern_that_fits_everywhere_is_reported_in_bounds() {
    let source = "x = 1\n".repeat(10_000);
    let report = check(&source, &Settings { banned: patterns(&["re:x"]), ..Settings::default() });
    assert_eq!(report.findings.len(), 20);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_a_pattern_or_an_error(text in "(re:|cpp:|\\.)?.{0,40}", source in ".{0,200}") {
        if let Ok(pattern) = text.parse::<Pattern>() {
            let settings = Settings { banned: vec![pattern.clone()], required: vec![pattern], ..Settings::default() };
            let report = check(&source, &settings);
            // One of the two always has something to say.
            prop_assert!(report.is_rejected());
        }
    }
}
