use super::*;
use proptest::prelude::*;

const GOOD: &str =
    r#"{"bottleneck": "memory", "method": "fuse", "plan": "one loop", "expected_gain": "1.3x", "metrics_used": ["a"]}"#;

fn good() -> Recommendation {
    Recommendation {
        bottleneck: "memory".to_owned(),
        method: "fuse".to_owned(),
        plan: "one loop".to_owned(),
        expected_gain: "1.3x".to_owned(),
        metrics_used: vec!["a".to_owned()],
    }
}

#[test]
fn one_object_whatever_stands_around_it() {
    let replies = [
        GOOD.to_owned(),
        format!("\u{feff}\r\n{GOOD}\r\n"),
        format!("```json\n{GOOD}\n```"),
        format!("Here you are:\n\n~~~\n{GOOD}\n~~~\nThe set {{a, b}} is {{}} of course."),
        format!("[{GOOD}]"),
        format!("{{\"recommendation\": {GOOD}}}"),
        format!("{{\"recommendations\": [{GOOD}], \"note\": 1}}"),
        format!("<think>{{\"method\": \"draft\"}}</think>{GOOD}"),
        format!("Draft: {GOOD}\nFinal: {GOOD}"),
        GOOD.replace("\"one loop\"", "[\"one\", \"loop\"]").replace("one\", \"loop", "one loop"),
        GOOD.replace("[\"a\"]", "\"a\""),
        GOOD.replace('}', ", \"confidence\": 0.9}"),
        format!("int main() {{ return 0; }}\n{GOOD}"),
    ];
    for reply in replies {
        assert_eq!(recommendation(&reply), Ok(good()), "{reply}");
    }
    let listed = recommendation(&GOOD.replace("\"one loop\"", "[\"first\", \"second\"]")).unwrap();
    assert_eq!(listed.plan, "first\nsecond");
    let without = recommendation(&GOOD.replace(", \"metrics_used\": [\"a\"]", "")).unwrap();
    assert!(without.metrics_used.is_empty());
}

#[test]
fn a_correction() {
    let text = r#"{"critical_issue": "the tail", "why_it_matters": "wrong sums", "minimal_fix_hint": "a mask"}"#;
    assert_eq!(correction(text).unwrap().minimal_fix_hint, "a mask");
    let error = correction(GOOD).unwrap_err().to_string();
    assert!(error.contains("critical_issue") && error.contains("minimal_fix_hint"), "{error}");
}

#[test]
fn what_cannot_be_used_says_why() {
    let second = GOOD.replace("fuse", "tile");
    let cases = [
        (String::new(), "empty"),
        (" \n".to_owned(), "empty"),
        ("Fuse the loops.".to_owned(), "no complete JSON object;"),
        (GOOD[..GOOD.len() - 1].to_owned(), "no complete JSON object (EOF"),
        (GOOD.replace("\"plan\"", "plan"), "no complete JSON object (key must be"),
        ("<think> {".to_owned(), "reasoning never ends"),
        (format!("{GOOD}\n{second}"), "holds 2 of them"),
        (format!("[{GOOD}, {second}]"), "holds 2 of them"),
        (format!("{{\"recommendations\": [{GOOD}, {second}]}}"), "holds 2 of them"),
        (GOOD.replace("\"fuse\"", "3"), "\"method\" is not a string"),
        (GOOD.replace("\"fuse\"", "{\"name\": \"fuse\"}"), "\"method\" is not a string"),
        (GOOD.replace("\"fuse\"", "[1, 2]"), "\"method\" is not a string"),
        (GOOD.replace("\"fuse\"", "null"), "\"method\" is missing"),
        (GOOD.replace("\"fuse\"", "\" \""), "\"method\" is empty"),
        (GOOD.replace("\"fuse\"", "[]"), "\"method\" is empty"),
        (GOOD.replace("[\"a\"]", "7"), "\"metrics_used\" is not a list"),
        ("{}".to_owned(), "\"bottleneck\" is missing, the field \"method\" is missing"),
        ("{\"a\": 1} {\"b\": 2}".to_owned(), "no object has the fields"),
        ("x".repeat(MAX_REPLY + 1), "bytes, more than"),
    ];
    for (reply, expected) in cases {
        let error = recommendation(&reply).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}: {}", reply.chars().take(200).collect::<String>());
        assert!(error.contains("one JSON object"), "{error}");
    }
}

#[test]
fn long_and_dirty_fields_are_tamed() {
    let reply = GOOD
        .replace("one loop", &"x\\u001b[31m\\u202e".repeat(9000))
        .replace("\"a\"", &vec!["\"m\\nn\""; 99].join(","));
    let found = recommendation(&reply).unwrap();
    assert!(found.plan.len() < LONG + 100 && found.plan.contains("left out"), "{}", found.plan.len());
    assert!(!found.plan.contains(['\u{1b}', '\u{202e}']));
    assert_eq!((found.metrics_used.len(), found.metrics_used[0].as_str()), (METRICS, "m n"));
}

#[test]
fn hostile_nesting_is_bounded_work() {
    for part in ["{", "{\"a\":", "[{\"a\":[", "{\"a\":1}", "{\"method\":\"x\"}"] {
        let reply = part.repeat(MAX_REPLY / part.len());
        assert!(recommendation(&reply).is_err(), "{part}");
    }
}

#[test]
fn the_schema_names_every_field() {
    let text = schema::<Recommendation>();
    for field in ["bottleneck", "method", "plan", "expected_gain", "metrics_used"] {
        assert!(text.contains(field), "{text}");
    }
    assert!(schema::<Correction>().contains("The smallest change that removes it"));
}

proptest! {
    #[test]
    fn nothing_panics(reply in any::<String>()) {
        let _ = recommendation(&reply);
        let _ = correction(&reply);
    }

    #[test]
    fn nothing_panics_on_broken_json(at in 0..GOOD.len(), c in any::<char>()) {
        let mut reply = GOOD.to_owned();
        reply.insert(at, c);
        let _ = recommendation(&reply);
    }
}
