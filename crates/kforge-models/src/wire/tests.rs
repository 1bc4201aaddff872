//! Samples of each format, written by hand after the vendors' documentation.

use super::*;
use crate::registry::Registry;
use crate::{Label, Speaker, Turn};

fn request() -> Request {
    let turn = |speaker, text: &str| Turn { speaker, text: text.into() };
    Request {
        label: Label {
            problem: "p".into(),
            problem_hash: "h".into(),
            target: "cpu/cpp".into(),
            role: "generator".into(),
            ordinal: 1,
        },
        system: "Be brief.".into(),
        turns: vec![turn(Speaker::User, "one"), turn(Speaker::Assistant, "two"), turn(Speaker::User, "three")],
        images: vec![Image { name: "chart".into(), media_type: "image/png".into(), bytes: vec![1, 2, 3] }],
        max_output_tokens: Some(100),
        temperature: Some(0.5),
        effort: Some(Effort::High),
    }
}

fn entry(name: &str) -> Entry {
    Registry::load(None).unwrap().entry(name).unwrap()
}

fn decode(wire: Wire, body: &str) -> Result<Partial, Fault> {
    let mut decoder = Decoder::new(wire);
    for piece in body.as_bytes().chunks(7) {
        decoder.push(piece)?;
    }
    if !decoder.partial.done {
        decoder.finish()?;
    }
    Ok(decoder.into_partial())
}

/// One event for each line.
fn stream(lines: &[&str]) -> String {
    lines.iter().flat_map(|line| ["data: ", line, "\n\n"]).collect()
}

fn usage(input: u64, cached: Option<u64>, output: u64, reasoning: Option<u64>) -> Usage {
    Usage { input: Some(input), cached_input: cached, output: Some(output), reasoning, estimated: false }
}

#[test]
fn chat_request() {
    let sent = build(&entry("gpt-4.1"), &request());
    assert_eq!(sent.path, "chat/completions");
    let body = &sent.body;
    assert_eq!(body["messages"][0], json!({"role": "system", "content": "Be brief."}));
    assert_eq!(body["messages"][1], json!({"role": "user", "content": "one"}));
    assert_eq!(body["messages"][2]["role"], "assistant");
    assert_eq!(body["messages"][3]["content"][1]["image_url"]["url"], "data:image/png;base64,AQID");
    assert_eq!(body["max_completion_tokens"], 100);
    assert_eq!(body["stream"], true);
    assert_eq!(body.get("reasoning_effort"), None);
    assert_eq!(sent.notes.len(), 1, "the effort could not be sent: {:?}", sent.notes);
}

#[test]
fn chat_request_of_a_model_that_does_not_see() {
    let sent = build(&entry("vllm:qwen"), &request());
    assert_eq!(sent.body["messages"][3]["content"], "three");
    assert_eq!(sent.body["max_tokens"], 100);
    assert!(sent.notes.iter().any(|note| note.contains("1 image(s) left out")), "{:?}", sent.notes);
}

#[test]
fn extra_fields_are_merged() {
    let mut entry = entry("gpt-4o");
    entry.extra = toml::from_str("temperature = 1.0\nstream_options = { chunk = 5 }").unwrap();
    let body = build(&entry, &request()).body;
    assert_eq!(body["temperature"], 1.0);
    assert_eq!(body["stream_options"], json!({"include_usage": true, "chunk": 5}));
}

#[test]
fn responses_request() {
    let sent = build(&entry("gpt-5"), &request());
    assert_eq!(sent.path, "responses");
    assert_eq!(sent.body["instructions"], "Be brief.");
    assert_eq!(sent.body["input"][1]["content"][0], json!({"type": "output_text", "text": "two"}));
    assert_eq!(sent.body["input"][2]["content"][1]["type"], "input_image");
    assert_eq!(sent.body["reasoning"], json!({"effort": "high"}));
    assert_eq!(sent.body["store"], false);
    assert_eq!(sent.body.get("temperature"), None);
    assert!(sent.notes[0].contains("temperature"));
    let mut low = request();
    low.effort = Some(Effort::Minimal);
    let sent = build(&entry("o3"), &low);
    assert_eq!(sent.body["reasoning"]["effort"], "low");
    assert!(sent.notes.iter().any(|note| note.contains("instead of minimal")));
}

#[test]
fn anthropic_request() {
    let mut asked = request();
    asked.max_output_tokens = Some(40_000);
    let sent = build(&entry("claude-sonnet-4-5"), &asked);
    assert_eq!((sent.path.as_str(), sent.headers[0].0), ("messages", "anthropic-version"));
    assert_eq!(sent.body["system"], "Be brief.");
    assert_eq!(sent.body["max_tokens"], 40_000);
    assert_eq!(sent.body["thinking"], json!({"type": "enabled", "budget_tokens": 20_000}));
    assert_eq!(sent.body.get("temperature"), None);
    assert_eq!(sent.body["messages"][2]["content"][0]["source"]["data"], "AQID");
    asked.effort = None;
    asked.max_output_tokens = Some(1_000_000);
    let sent = build(&entry("claude-sonnet-4-5"), &asked);
    assert_eq!(sent.body["max_tokens"], 64_000);
    assert_eq!(sent.body["temperature"], 0.5);
    assert_eq!(
        build(&entry("anthropic:any"), &Request { max_output_tokens: None, ..asked }).body["max_tokens"],
        32_000
    );
}

#[test]
fn anthropic_effort_without_room_is_noted() {
    let sent = build(&entry("claude-sonnet-4-5"), &request());
    assert_eq!((sent.body.get("thinking"), &sent.body["temperature"]), (None, &json!(0.5)));
    assert!(sent.notes.iter().any(|note| note.starts_with("effort left out")), "{:?}", sent.notes);
}

#[test]
fn anthropic_adaptive_effort() {
    let mut entry = entry("claude-opus-4-5");
    entry.effort.as_mut().unwrap().style = Some(EffortStyle::Adaptive);
    let sent = build(&entry, &request());
    assert_eq!(sent.body["thinking"], json!({"type": "adaptive"}));
    assert_eq!(sent.body["output_config"], json!({"effort": "high"}));
}

#[test]
fn gemini_request() {
    let sent = build(&entry("gemini-2.5-pro"), &request());
    assert_eq!(sent.path, "models/gemini-2.5-pro:streamGenerateContent?alt=sse");
    assert_eq!(sent.body["contents"][1]["role"], "model");
    assert_eq!(sent.body["contents"][2]["parts"][1]["inlineData"]["data"], "AQID");
    assert_eq!(sent.body["generationConfig"]["thinkingConfig"]["thinkingBudget"], 24_576);
    assert_eq!(sent.body["systemInstruction"]["parts"][0]["text"], "Be brief.");
}

#[test]
fn keys_travel_in_headers() {
    let headers = ["gpt-4o", "claude-haiku-4-5", "gemini-2.5-pro"].map(|name| {
        let entry = entry(name);
        let (header, before) = key_header(&entry);
        format!("{header}: {before}")
    });
    assert_eq!(headers, ["authorization: Bearer ", "x-api-key: ", "x-goog-api-key: "]);
}

#[test]
fn chat_stream() {
    let body = stream(&[
        r#"{"model":"m-1","choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}"#,
        r#"{"model":"m-1","choices":[{"delta":{"reasoning_content":"let me think","content":null}}]}"#,
        r#"{"model":"m-1","choices":[{"delta":{"content":"Hél"}}]}"#,
        r#"{"model":"m-1","choices":[{"delta":{"content":"lo"},"finish_reason":"stop"}]}"#,
        r#"{"model":"m-1","choices":[],"usage":{"prompt_tokens":9,"completion_tokens":12,"prompt_tokens_details":{"cached_tokens":4},"completion_tokens_details":{"reasoning_tokens":10}}}"#,
        "[DONE]",
        "not even json",
    ]);
    let partial = decode(Wire::OpenaiChat, &body).unwrap();
    assert_eq!((partial.text.as_str(), partial.characters, partial.model.as_str()), ("Héllo", 5, "m-1"));
    assert_eq!(partial.stop, Some(Stop::End));
    assert_eq!(partial.usage, usage(9, Some(4), 12, Some(10)));
}

#[test]
fn chat_whole() {
    let body = r#" {"model":"m","choices":[{"message":{"content":"hi","reasoning":"x"},"finish_reason":"length"}],"usage":{"prompt_tokens":1,"completion_tokens":2}}"#;
    let partial = decode(Wire::OpenaiChat, body).unwrap();
    assert_eq!((partial.text.as_str(), partial.stop), ("hi", Some(Stop::Length)));
    assert_eq!(partial.usage, usage(1, None, 2, None));
}

#[test]
fn chat_reasoning_inside_the_text() {
    let body = stream(&[r#"{"choices":[{"delta":{"content":"<think>a</think>b"},"finish_reason":"stop"}]}"#]);
    let partial = decode(Wire::OpenaiChat, &body).unwrap();
    assert_eq!(partial.text, "b");
    assert_eq!(partial.notes.len(), 1);
}

#[test]
fn chat_refusals_and_errors() {
    let body = stream(&[r#"{"choices":[{"delta":{"refusal":"I will not"},"finish_reason":"stop"}]}"#, "[DONE]"]);
    assert_eq!(decode(Wire::OpenaiChat, &body).unwrap().stop, Some(Stop::Refused));
    let body =
        stream(&[r#"{"choices":[{"delta":{"content":"x"}}]}"#, r#"{"error":{"code":502,"message":"upstream"}}"#]);
    let fault = decode(Wire::OpenaiChat, &body).unwrap_err();
    assert_eq!((fault.kind, fault.retry), (CallErrorKind::Server, true));
    let named = "event: error\ndata: {\"message\":\"slow down\",\"type\":\"rate_limit_error\"}\n\n";
    assert_eq!(decode(Wire::OpenaiChat, named).unwrap_err().kind, CallErrorKind::RateLimited);
}

#[test]
fn responses_stream() {
    let body = stream(&[
        r#"{"type":"response.created","response":{"model":"gpt-5-2025-08-07"}}"#,
        r#"{"type":"response.reasoning_summary_text.delta","delta":"thinking"}"#,
        r#"{"type":"response.output_text.delta","delta":"Hel"}"#,
        r#"{"type":"response.output_text.delta","delta":"lo"}"#,
        r#"{"type":"response.output_text.done","text":"Hello"}"#,
        r#"{"type":"response.completed","response":{"model":"gpt-5-2025-08-07","status":"completed","error":null,"output":[{"type":"reasoning"},{"type":"message","content":[{"type":"output_text","text":"Hello"}]}],"usage":{"input_tokens":5,"input_tokens_details":{"cached_tokens":1},"output_tokens":70,"output_tokens_details":{"reasoning_tokens":64}}}}"#,
    ]);
    let partial = decode(Wire::OpenaiResponses, &body).unwrap();
    assert_eq!((partial.text.as_str(), partial.stop), ("Hello", Some(Stop::End)));
    assert_eq!(partial.usage, usage(5, Some(1), 70, Some(64)));
}

#[test]
fn responses_whole_incomplete_and_failed() {
    let body = r#"{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"model":"m","output":[{"type":"message","content":[{"type":"output_text","text":"Hi"}]}],"usage":{"input_tokens":1,"output_tokens":2}}"#;
    let partial = decode(Wire::OpenaiResponses, body).unwrap();
    assert_eq!((partial.text.as_str(), partial.stop), ("Hi", Some(Stop::Length)));
    let body = stream(&[
        r#"{"type":"response.failed","response":{"status":"failed","error":{"code":"rate_limit_exceeded","message":"Please try again in 3s."}}}"#,
    ]);
    let fault = decode(Wire::OpenaiResponses, &body).unwrap_err();
    assert_eq!((fault.kind, fault.retry_in.map(|pause| pause.as_secs())), (CallErrorKind::RateLimited, Some(3)));
    let body = stream(&[r#"{"type":"error","code":"server_error","message":"oops"}"#]);
    assert_eq!(decode(Wire::OpenaiResponses, &body).unwrap_err().kind, CallErrorKind::Server);
}

const ANTHROPIC: &[&str] = &[
    r#"{"type":"message_start","message":{"model":"claude-x","usage":{"input_tokens":3,"cache_read_input_tokens":10,"cache_creation_input_tokens":2,"output_tokens":1}}}"#,
    r#"{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":""}}"#,
    r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}}"#,
    r#"{"type":"ping"}"#,
    r#"{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"Hel"}}"#,
    r#"{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"lo"}}"#,
    r#"{"type":"message_delta","delta":{"stop_reason":"max_tokens"},"usage":{"output_tokens":20}}"#,
    r#"{"type":"message_stop"}"#,
];

#[test]
fn anthropic_stream() {
    let partial = decode(Wire::Anthropic, &stream(ANTHROPIC)).unwrap();
    assert_eq!(
        (partial.text.as_str(), partial.stop, partial.model.as_str()),
        ("Hello", Some(Stop::Length), "claude-x")
    );
    assert_eq!(partial.usage, usage(15, Some(10), 20, None));
}

#[test]
fn a_cut_anthropic_stream_has_no_count_of_its_reply() {
    let mut decoder = Decoder::new(Wire::Anthropic);
    decoder.push(stream(&ANTHROPIC[..6]).as_bytes()).unwrap();
    assert_eq!((decoder.partial.usage.input, decoder.partial.usage.output), (Some(15), None));
}

#[test]
fn anthropic_whole_and_overloaded() {
    let body = r#"{"type":"message","model":"c","content":[{"type":"thinking","thinking":"x"},{"type":"text","text":"hi"}],"stop_reason":"refusal","usage":{"input_tokens":1,"output_tokens":2}}"#;
    let partial = decode(Wire::Anthropic, body).unwrap();
    assert_eq!((partial.text.as_str(), partial.stop), ("hi", Some(Stop::Refused)));
    let body =
        stream(&[ANTHROPIC[0], r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#]);
    let fault = decode(Wire::Anthropic, &body).unwrap_err();
    assert_eq!((fault.kind, fault.retry), (CallErrorKind::Server, true));
}

const GEMINI: [&str; 2] = [
    r#"{"candidates":[{"content":{"role":"model","parts":[{"text":"thinking","thought":true},{"text":"Hel"}]}}],"modelVersion":"gemini-2.5-pro"}"#,
    r#"{"candidates":[{"content":{"parts":[{"text":"lo"}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":7,"cachedContentTokenCount":3,"candidatesTokenCount":2,"thoughtsTokenCount":30}}"#,
];

#[test]
fn gemini_stream_and_array() {
    for body in [stream(&GEMINI), format!("[{},\n{}]", GEMINI[0], GEMINI[1])] {
        let partial = decode(Wire::Gemini, &body).unwrap();
        assert_eq!((partial.text.as_str(), partial.stop), ("Hello", Some(Stop::End)));
        assert_eq!(partial.usage, usage(7, Some(3), 32, Some(30)));
    }
    let blocked = stream(&[r#"{"promptFeedback":{"blockReason":"SAFETY"}}"#]);
    assert_eq!(decode(Wire::Gemini, &blocked).unwrap().stop, Some(Stop::Refused));
}

#[test]
fn cut_streams_are_not_replies() {
    let bodies = [
        (Wire::OpenaiChat, stream(&[r#"{"choices":[{"delta":{"content":"half"}}]}"#])),
        (Wire::OpenaiResponses, stream(&[r#"{"type":"response.output_text.delta","delta":"half"}"#])),
        (Wire::Anthropic, stream(&ANTHROPIC[..6])),
        (Wire::Gemini, stream(&GEMINI[..1])),
        (Wire::OpenaiChat, r#"{"model":"m","choices":[{"mess"#.into()),
        (Wire::OpenaiChat, String::new()),
    ];
    for (wire, body) in bodies {
        let fault = decode(wire, &body).unwrap_err();
        assert_eq!((fault.kind, fault.retry, fault.billed), (CallErrorKind::Cut, true, true), "{wire:?} {body}");
    }
}

#[test]
fn garbage_is_named() {
    for body in
        ["<html>login</html>", "data: {broken\n\n", "{\"hello\": 1}", "{]", "\u{0}\u{1}", "[1, 2]", "data: 5\n\n"]
    {
        let fault = decode(Wire::OpenaiChat, body).unwrap_err();
        assert_eq!((fault.kind, fault.retry), (CallErrorKind::Garbled, false), "{body}");
    }
}

#[test]
fn odd_types_do_no_harm() {
    for wire in [Wire::OpenaiChat, Wire::OpenaiResponses, Wire::Anthropic, Wire::Gemini] {
        for json in ["null", "[]", "7", "\"x\"", r#"{"choices":{},"usage":[],"type":5,"candidates":"x","model":{}}"#] {
            assert!(decode(wire, &stream(&[json])).is_err(), "{wire:?} {json}");
            assert!(decode(wire, json).is_err(), "{wire:?} {json}");
        }
    }
}
