//! The public page about the rules, made from their module comments.

use std::fmt::Write as _;

use kforge_types::Severity;

use crate::rules::{Rule, rules};

const INTRODUCTION: &str = r#"# Guardrails

<!-- Generated from the rules' module comments; a test of kforge-guard holds it to them. -->

Before anything of a candidate runs, its source is checked by these rules. A hard finding rejects the candidate with a
reason that its author can act on; a soft one is reported. Names are followed through imports, aliases, arguments and
returns, so `from os import system as s` is still `os.system`. Native code in strings is read as tokens, without its
comments. `--allow-rule NAME` switches a rule off.

`--ban PATTERN` refuses candidates in which something occurs, `--require PATTERN` those in which it does not; both may be
repeated. A pattern is

| form | matches |
|---|---|
| `torch.matmul` | the function, class or module of this name, or something in it, by whatever alias it is reached; this one also means the operator `@` |
| `torch.matmul()` | calls of it |
| `torch.nn.functional.*`, `torch.conv*` | all names that begin so |
| `.half`, `.half()` | an attribute of any object, or calls of it |
| `cpp:float4`, `cpp:std::thread`, `cpp:cublas*` | words of the native code in strings |
| `re:REGEX` | text of the file, without Python's comments and documentation; `^` and `$` are ends of lines |

The same can be kept in a file for `--guard-file FILE`:

```toml
ban = ["torch.nn.functional.*", "cpp:cublas*"]
require = ["triton.jit"]
off = ["fast_math"]      # rules that are switched off
imports = ["einops"]     # packages beside those of the target
```

The rules are an early net, not the wall: candidates run in a sandbox and are judged in other processes.
"#;

/// The Markdown page `docs/reference/guardrails.md`.
#[must_use]
pub fn guardrails_page() -> String {
    let mut page = INTRODUCTION.to_owned();
    page.push_str("\n| rule | | |\n|---|---|---|\n");
    for rule in rules() {
        let _ = writeln!(page, "| [`{0}`](#{0}) | {1} | {2} |", rule.name, word(rule), rule.summary());
    }
    for rule in rules() {
        let _ = write!(page, "\n## {}\n\n*{}.* {}", rule.name, word(rule), rule.doc().replace("\n## ", "\n### "));
    }
    page
}

fn word(rule: &Rule) -> &'static str {
    match rule.severity {
        Severity::Hard => "hard",
        Severity::Soft => "soft",
    }
}
