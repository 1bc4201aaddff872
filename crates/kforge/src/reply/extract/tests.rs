use super::*;
use proptest::prelude::*;

const FILE: &str =
    "import torch\nfrom torch import nn\n\n\nclass NewModel(nn.Module):\n    def forward(self, x):\n        return x\n";

fn source(reply: &str) -> String {
    extract(reply).unwrap_or_else(|error| panic!("{error}: {reply}")).source
}

fn python(text: &str) -> String {
    format!("```python\n{text}```\n")
}

#[test]
fn one_block_however_it_is_fenced() {
    let indented = format!("    {}", FILE.trim_end().replace('\n', "\n    "));
    let replies = [
        python(FILE),
        format!("```\n{FILE}```"),
        format!("~~~python\n{FILE}~~~\n"),
        format!("````py\n{FILE}````\n"),
        format!("```Python3 title=\"candidate.py\"\n{FILE}```\n"),
        format!("```{{.python .numberLines}}\n{FILE}```\n"),
        format!("```python:candidate.py\n{FILE}```\n"),
        format!("```python   \n{FILE}```   \n"),
        format!("1. Here it is:\n\n    ```python\n{indented}\n    ```\n"),
        format!("\u{feff}Idea: x\n{}", python(FILE)),
        format!("```python\n\u{feff}{FILE}```"),
        python(FILE).replace('\n', "\r\n"),
        format!("Use `x` and ```inline``` code.\n\n{}\nDone.", python(FILE)),
        format!("<think>\n```python\nclass NewModel(nn.Module): pass\n```\n</think>\n{}", python(FILE)),
        format!("I think so.\n</think>\n\n{}", python(FILE)),
        python(&format!("\n\n{FILE}\n\n")),
    ];
    for reply in replies {
        assert_eq!(source(&reply), FILE, "{reply}");
    }
}

#[test]
fn the_last_complete_block_with_the_model_is_taken() {
    let old = FILE.replace("return x", "return x + 1");
    let reply = format!("{}\nBetter:\n{}\nRun it:\n```bash\npython candidate.py\n```\n", python(&old), python(FILE));
    let found = extract(&reply).unwrap();
    assert_eq!(found.source, FILE);
    assert_eq!(found.notes.len(), 2, "{:?}", found.notes);
    // A snippet after the file is no file.
    assert_eq!(source(&format!("{}\nNote:\n{}", python(FILE), python("x = torch.empty(1)\n"))), FILE);
    // A class named in C++ or in a comment does not count.
    let cpp = "```cpp\nclass NewModel {};\n```\n";
    assert_eq!(source(&format!("{}{cpp}", python(FILE))), FILE);
    // What breaks off after a complete file does not spoil it.
    let found = extract(&format!("{}\nAnd:\n```python\nclass NewModel(nn.Mo", python(FILE))).unwrap();
    assert_eq!(found.source, FILE);
    assert!(found.notes[0].contains("no closing fence"), "{:?}", found.notes);
    // The same file twice is one file.
    assert!(extract(&format!("{}{}", python(FILE), python(FILE))).unwrap().notes.is_empty());
}

#[test]
fn fences_inside_the_file() {
    let documented = format!("\"\"\"Kernel.\n\n```cpp\nint x;\n```\nand\n```\ny\n```\n\"\"\"\n{FILE}");
    assert_eq!(source(&python(&documented)), documented);
    assert_eq!(source(&format!("````python\n{documented}````\n")), documented);
    assert_eq!(source(&format!("~~~python\n{documented}~~~\n")), documented);
    let printed = format!("{FILE}\nTEXT = '```'\n");
    assert_eq!(source(&python(&printed)), printed);
}

#[test]
fn other_names_of_the_model() {
    let new = FILE.replace("NewModel", "ModelNew");
    assert_eq!(source(&python(&new)), new);
    let assigned = format!("{}\nNewModel = Fast\n", FILE.replace("NewModel", "Fast"));
    assert_eq!(source(&python(&assigned)), assigned);
}

#[test]
fn a_bare_file_is_accepted_if_it_parses() {
    let found = extract(FILE).unwrap();
    assert_eq!((found.source.as_str(), found.notes.len()), (FILE, 1));
    let found = extract(&format!("Idea: one pass\n\n{FILE}")).unwrap();
    assert_eq!((found.source.as_str(), found.idea.as_deref()), (FILE, Some("one pass")));
    assert_eq!(extract(&format!("Sure, here is the kernel!\n{FILE}")), Err(ExtractError::NoModel));
}

#[test]
fn what_is_no_candidate_says_what_to_send() {
    let diff = "--- a/candidate.py\n+++ b/candidate.py\n@@ -1,2 +1,2 @@\n-class NewModel(nn.Module):\n+class NewModel(Module):\n";
    let cases = [
        (String::new(), ExtractError::Empty),
        ("\u{feff} \r\n\t".to_owned(), ExtractError::Empty),
        ("```python\n\n```".to_owned(), ExtractError::Empty),
        ("I cannot help with that.".to_owned(), ExtractError::OnlyProse),
        ("Use class NewModel and be happy.".to_owned(), ExtractError::OnlyProse),
        (diff.to_owned(), ExtractError::OnlyDiff),
        (format!("```diff\n{diff}```"), ExtractError::OnlyDiff),
        (python(diff), ExtractError::OnlyDiff),
        (
            "```python\n<<<<<<< SEARCH\nclass NewModel(nn.Module):\n=======\n>>>>>>> REPLACE\n```".to_owned(),
            ExtractError::OnlyDiff,
        ),
        (format!("```python\n{FILE}"), ExtractError::Truncated),
        ("Idea: x\n```".to_owned(), ExtractError::Truncated),
        ("Idea: x\n```cpp\nint main() {".to_owned(), ExtractError::Truncated),
        ("<think>\nLet me see ```python\n".to_owned(), ExtractError::OnlyThinking),
        (python("def forward(x):\n    return x\n"), ExtractError::NoModel),
        (python("# class NewModel(nn.Module):\nx = 'class NewModel'\n"), ExtractError::NoModel),
        (python("class NewModelBase(nn.Module):\n    pass\n"), ExtractError::NoModel),
        ("```cpp\nclass NewModel {};\n```".to_owned(), ExtractError::NoModel),
        (
            "kernel.cpp:\n```cpp\nint x;\n```\nmain.py\n```python\nimport x\n```".to_owned(),
            ExtractError::SeveralFiles("kernel.cpp, main.py".to_owned()),
        ),
        (
            format!(
                "**kernels.py**\n{}**candidate.py**\n{}",
                python("x = 1\n"),
                python(&format!("from kernels import x\n{FILE}"))
            ),
            ExtractError::SeveralFiles("candidate.py, kernels.py".to_owned()),
        ),
        (
            format!("```cpp:fast.cpp\nint x;\n```\n{}", python(&format!("SRC = open(\"fast.cpp\").read()\n{FILE}"))),
            ExtractError::SeveralFiles("fast.cpp".to_owned()),
        ),
        ("x".repeat(MAX_REPLY + 1), ExtractError::ReplyTooLarge(MAX_REPLY + 1)),
    ];
    for (reply, error) in cases {
        let shown: String = reply.chars().take(200).collect();
        assert_eq!(extract(&reply), Err(error.clone()), "{shown}");
        assert!(error.to_string().contains("answer"), "{error}");
    }
    let long = format!("{FILE}{}", "x = 1\n".repeat(MAX_CANDIDATE / 6));
    assert!(matches!(extract(&python(&long)), Err(ExtractError::CandidateTooLarge(_))));
}

#[test]
fn named_blocks_that_are_not_needed_are_only_noted() {
    let reply = format!("kernel.cpp, for reading:\n```cpp\nint x;\n```\ncandidate.py\n{}", python(FILE));
    assert_eq!(source(&reply), FILE);
    let writes = format!("Path(folder, \"kernel.cpp\").write_text(SOURCE)\n{FILE}");
    assert_eq!(source(&format!("kernel.cpp:\n```cpp\nint x;\n```\nAll of it:\n{}", python(&writes))), writes);
}

#[test]
fn ideas() {
    let cases = [
        ("Idea: fuse the passes", Some("fuse the passes")),
        ("**Idea:** fuse `x`", Some("fuse `x")),
        ("### Idea: fuse", Some("fuse")),
        ("- IDEA : fuse\u{1b}[31m it", Some("fuse it")),
        ("Sure!\n\nidea: fuse\nmore", Some("fuse")),
        ("Ideas: none", None),
        ("Idea:", None),
        ("Idée: x", None),
        ("No line", None),
    ];
    for (prose, idea) in cases {
        let found = extract(&format!("{prose}\n{}", python(FILE))).unwrap();
        assert_eq!(found.idea.as_deref(), idea, "{prose}");
    }
    let long = extract(&format!("Idea: {}\n{}", "ä".repeat(500), python(FILE))).unwrap().idea.unwrap();
    assert!(long.len() <= MAX_IDEA && long.ends_with("..."), "{long}");
    let comment = extract(&python(&format!("# Idea: tiles\n{FILE}"))).unwrap();
    assert_eq!(comment.idea.as_deref(), Some("tiles"));
    // A line of the code is not an idea.
    assert_eq!(extract(&python(&format!("{FILE}\nX = '''\nIdea: no\n'''\n"))).unwrap().idea, None);
}

#[test]
fn placeholders_are_noted() {
    let found = extract(&python(&format!("{FILE}    # ... rest of the code unchanged\n"))).unwrap();
    assert!(found.notes[0].contains("incomplete"), "{:?}", found.notes);
    assert!(extract(&python(&format!("{FILE}# ... and so on\n"))).unwrap().notes.is_empty());
}

#[test]
fn many_fences_are_bounded_work() {
    let marks = "```\n".repeat(100_000);
    assert!(extract(&marks).is_err());
    let opening = |n| format!("{}python\nclass NewModel(x):\n", "`".repeat(n));
    let nested = (3..1200).rev().map(opening).collect::<Vec<_>>().concat();
    let _ = extract(&nested[..nested.len().min(MAX_REPLY)]);
    let quotes = format!("```python\nclass NewModel(x):\n  '''\n{}", "```\n".repeat(200_000));
    let _ = extract(&quotes);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn nothing_panics(reply in any::<String>()) {
        let _ = extract(&reply);
    }

    #[test]
    fn nothing_panics_on_near_misses(parts in prop::collection::vec(prop_oneof![
        Just("```python\n"), Just("```\n"), Just("~~~\n"), Just("````"), Just("\n"), Just("\r\n"), Just("class NewModel(nn.Module):\n"),
        Just("    pass\n"), Just("'''"), Just("Idea: ä\n"), Just("<think>"), Just("</think>\n"), Just("--- a\n"), Just("+++ b\n"),
        Just("@@ -1 +1 @@\n"), Just("\u{feff}"), Just("# a.py\n"), Just("import b\n"), Just("b.py"), Just("\t \u{2003}"), Just("…"),
    ], 0..24)) {
        if let Ok(found) = extract(&parts.concat()) {
            prop_assert!(defines_model(&found.source));
            prop_assert!(found.idea.is_none_or(|idea| idea.len() <= MAX_IDEA && !idea.contains('\n')));
        }
    }
}
