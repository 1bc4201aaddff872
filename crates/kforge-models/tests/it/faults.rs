//! Servers that fail in every way that servers fail.

use std::time::Duration;

use kforge_models::{CallError, CallErrorKind, Model, Patience, Stop, Unwatched};

use super::server::{Act, HELLO, Server, entry, events, hello, model, patience, play, request, response};

const KEY: &str = "sk-test-0123456789abcdef";

fn key_entry() -> String {
    format!("key_command = ['printf', '%s', '{KEY}']")
}

fn fails(script: Vec<Act>) -> (CallError, usize) {
    let (outcome, seen) = play(script, "", patience());
    (outcome.unwrap_err(), seen.len())
}

fn refused(status: u16, body: &str) -> CallError {
    let (error, count) = fails(vec![Act::Say(response(status, "", body))]);
    assert_eq!((count, error.attempts), (1, 1), "{error}");
    error
}

#[test]
fn a_good_reply() {
    let (reply, seen) = play(vec![Act::Say(hello())], "price = { input = 1.0, output = 10.0 }", patience());
    let reply = reply.unwrap();
    assert_eq!((reply.text.as_str(), reply.stop, reply.attempts), ("hello", Stop::End, 1));
    assert_eq!((reply.usage.input, reply.usage.output, reply.usage.estimated), (Some(1000), Some(100), false));
    assert!((reply.cost_usd.unwrap() - 0.002).abs() < 1e-12);
    assert_eq!(reply.notes, [""; 0]);
    assert!(seen[0].head.starts_with("POST /v1/chat/completions HTTP/1.1"), "{}", seen[0].head);
    assert!(!seen[0].head.to_lowercase().contains("authorization"));
    assert!(seen[0].body.contains("Say hello."));
}

#[test]
fn a_reply_in_one_piece() {
    let body = r#"{"model":"m","choices":[{"message":{"content":"hello"},"finish_reason":"stop"}]}"#;
    let (reply, _) = play(vec![Act::Say(response(200, "", body))], "", patience());
    let reply = reply.unwrap();
    assert_eq!(reply.text, "hello");
    assert!(reply.usage.estimated && reply.usage.output == Some(2));
    assert_eq!(reply.cost_usd, None);
    assert!(reply.notes[0].contains("estimated"));
}

#[test]
fn the_key_goes_to_the_server_and_nowhere_else() {
    let echo = format!(r#"{{"error":{{"message":"Incorrect API key provided: {KEY}. Also: Bearer {KEY}"}}}}"#);
    for status in [401, 403, 400, 404, 500, 302] {
        let (outcome, seen) = play(vec![Act::Say(response(status, "", &echo))], &key_entry(), patience());
        let error = outcome.unwrap_err();
        assert!(seen[0].head.contains(&format!("authorization: Bearer {KEY}")));
        assert!(!format!("{error} {error:?}").contains("0123456789"), "{error}");
        if status == 401 {
            assert_eq!(error.kind, CallErrorKind::KeyRefused);
            assert!(error.text.contains("key_command"), "{error}");
        }
    }
    let not_json = vec![Act::Say(response(200, "", &format!("<p>{KEY}</p>")))];
    let error = play(not_json, &key_entry(), patience()).0.unwrap_err();
    assert!(error.kind == CallErrorKind::Garbled && !error.text.contains("0123456789"), "{error}");
    let line = format!(r#"{{"model":"{KEY}","choices":[{{"delta":{{"content":"{KEY}"}},"finish_reason":"stop"}}]}}"#);
    let reply = play(vec![Act::Say(events(&[&line], true))], &key_entry(), patience()).0.unwrap();
    assert!(!format!("{reply:?}").contains("0123456789"), "{reply:?}");
}

#[test]
fn no_key_means_no_request() {
    let (outcome, seen) = play(vec![Act::Say(hello())], "key_env = 'KFORGE_TEST_ABSENT_KEY'", patience());
    let error = outcome.unwrap_err();
    assert_eq!(error.kind, CallErrorKind::NoKey);
    assert!(error.text.contains("KFORGE_TEST_ABSENT_KEY"));
    assert_eq!(seen.len(), 0);
}

#[test]
fn refusals_are_not_repeated() {
    assert_eq!(refused(401, "{}").kind, CallErrorKind::KeyRefused);
    let error = refused(404, r#"{"error":{"message":"The model `m` does not exist"}}"#);
    assert_eq!(error.kind, CallErrorKind::Rejected);
    assert!(error.text.contains("does not exist") && !error.may_be_billed, "{error}");
    let error = refused(
        400,
        r#"{"error":{"message":"maximum context length is 100 tokens","code":"context_length_exceeded"}}"#,
    );
    assert_eq!(error.kind, CallErrorKind::TooLong);
}

#[test]
fn redirects_are_not_followed() {
    let other = Server::start(vec![Act::Say(hello())]);
    let headers = format!("location: {}/chat/completions\r\n", other.url());
    for status in [301, 302, 307, 308] {
        let (outcome, _) = play(vec![Act::Say(response(status, &headers, ""))], &key_entry(), patience());
        let error = outcome.unwrap_err();
        assert_eq!(error.kind, CallErrorKind::Rejected);
        assert!(error.text.contains("redirects"), "{error}");
    }
    assert_eq!(other.seen().len(), 0);
}

#[test]
fn waiting_as_told_then_success() {
    for headers in ["retry-after: 0.01\r\n", ""] {
        let limit = response(429, headers, r#"{"error":{"message":"Please try again in 5ms."}}"#);
        let (outcome, seen) = play(vec![Act::Say(limit.clone()), Act::Say(limit), Act::Say(hello())], "", patience());
        let reply = outcome.unwrap();
        assert_eq!((reply.attempts, seen.len(), reply.text.as_str()), (3, 3, "hello"));
        assert_eq!(reply.usage.input, Some(1000), "an attempt that was turned away costs nothing");
    }
}

#[test]
fn too_many_requests_for_too_long() {
    let (error, count) = fails(vec![Act::Say(response(429, "", "{}"))]);
    assert_eq!((error.kind, count, error.attempts), (CallErrorKind::RateLimited, 4, 4));
    let (error, count) = fails(vec![Act::Say(response(429, "retry-after: 7200\r\n", "{}"))]);
    assert_eq!((error.kind, count), (CallErrorKind::LimitReached { lifted_in: Some(Duration::from_hours(2)) }, 1));
    let far = "retry-after: Fri, 31 Dec 2100 23:59:59 GMT\r\n";
    let (error, _) = fails(vec![Act::Say(response(503, far, ""))]);
    assert!(matches!(error.kind, CallErrorKind::LimitReached { lifted_in: Some(_) }), "{error:?}");
}

#[test]
fn server_failures_pass() {
    let bad = |status| Act::Say(response(status, "", "<html>oops</html>"));
    let reply = play(vec![bad(500), bad(503), bad(529), Act::Say(hello())], "", patience()).0.unwrap();
    assert_eq!(reply.attempts, 4);
    let (error, count) = fails(vec![bad(500)]);
    assert_eq!((error.kind, count), (CallErrorKind::Server, 4));
}

#[test]
fn cut_streams_are_asked_again() {
    let half = events(&HELLO[..1], false);
    let reply =
        play(vec![Act::Say(half.clone()), Act::Say(hello())], "price = { input = 1.0, output = 1.0 }", patience())
            .0
            .unwrap();
    assert_eq!((reply.text.as_str(), reply.attempts), ("hello", 2));
    assert!(reply.usage.estimated && reply.usage.input > Some(1000), "the lost attempt is counted: {:?}", reply.usage);
    for lost in [half, events(&HELLO[..1], true), Vec::new()] {
        let (error, count) = fails(vec![Act::Say(lost)]);
        assert_eq!((error.kind, count, error.may_be_billed), (CallErrorKind::Cut, 4, true), "{error}");
    }
}

#[test]
fn a_break_after_the_end_does_no_harm() {
    let reply = play(vec![Act::Say(events(&HELLO[..2], false))], "", patience()).0.unwrap();
    assert_eq!((reply.text.as_str(), reply.attempts), ("hello", 1));
    assert!(reply.usage.estimated);
    let reply = play(vec![Act::Hang(events(HELLO, false))], "", patience()).0.unwrap();
    assert_eq!((reply.text.as_str(), reply.attempts), ("hello", 1));
}

#[test]
fn a_connection_left_open_after_the_end_does_no_harm() {
    let patience = Patience { idle: Duration::from_secs(1), ..patience() };
    // All of the reply has come, without the marker of the end.
    let reply = play(vec![Act::Hang(events(&HELLO[..2], false))], "", patience).0.unwrap();
    assert_eq!((reply.text.as_str(), reply.attempts), ("hello", 1));
}

#[test]
fn empty_replies_are_asked_again() {
    let empty = events(&[r#"{"choices":[{"delta":{"content":" "},"finish_reason":"stop"}]}"#, "[DONE]"], true);
    let reply = play(vec![Act::Say(empty.clone()), Act::Say(hello())], "", patience()).0.unwrap();
    assert_eq!(reply.attempts, 2);
    let (error, count) = fails(vec![Act::Say(empty)]);
    assert_eq!((error.kind, count, error.may_be_billed), (CallErrorKind::Server, 4, true));
    let cut_off = events(&[r#"{"choices":[{"delta":{"reasoning":"hm"},"finish_reason":"length"}]}"#, "[DONE]"], true);
    let reply = play(vec![Act::Say(cut_off)], "", patience()).0.unwrap();
    assert_eq!((reply.stop, reply.attempts), (Stop::Length, 1));
}

#[test]
fn garbage() {
    let garbled = [
        events(&["{broken"], true),
        response(200, "", "<html>please log in</html>"),
        response(200, "", r#"{"unexpected": true}"#),
        response(200, "", "\u{1}\u{2}\u{3}"),
    ];
    for body in garbled {
        let (error, count) = fails(vec![Act::Say(body)]);
        assert_eq!((error.kind, count), (CallErrorKind::Garbled, 1), "{error}");
    }
    let (error, _) = fails(vec![Act::Say(b"this is not HTTP\r\n\r\n".to_vec())]);
    assert_eq!((error.kind, error.attempts), (CallErrorKind::Garbled, 1), "{error}");
}

#[test]
fn endless_bodies_end() {
    let head = b"HTTP/1.1 200 OK\r\n\r\ndata: ".to_vec();
    let (error, _) = fails(vec![Act::Flood(head, vec![b'x'; 1 << 20])]);
    assert_eq!(error.kind, CallErrorKind::Garbled, "{error}");
    let (error, _) = fails(vec![Act::Flood(b"HTTP/1.1 200 OK\r\n\r\n{".to_vec(), vec![b' '; 1 << 20])]);
    assert_eq!(error.kind, CallErrorKind::Garbled, "{error}");
    let (error, _) = fails(vec![Act::Flood(b"HTTP/1.1 200 OK\r\n\r\n".to_vec(), b": keep-alive\n".repeat(100_000))]);
    assert_eq!(error.kind, CallErrorKind::Garbled, "{error}");
    let (error, _) = fails(vec![Act::Flood(b"HTTP/1.1 400 Bad\r\n\r\n".to_vec(), vec![b'x'; 1 << 20])]);
    assert_eq!(error.kind, CallErrorKind::Rejected);
    assert!(error.text.len() < 2000);
}

#[test]
fn slow_is_not_dead() {
    let (reply, _) = play(vec![Act::Drip(hello(), Duration::from_micros(300))], "", patience());
    assert_eq!(reply.unwrap().text, "hello");
}

#[test]
fn silence_ends() {
    let patience = Patience { idle: Duration::from_millis(100), ..patience() };
    for said in [Vec::new(), b"HTTP/1.1 200 OK\r\n\r\n".to_vec(), events(&HELLO[..1], false)] {
        let (outcome, seen) = play(vec![Act::Hang(said)], "", patience);
        let error = outcome.unwrap_err();
        assert_eq!((error.kind, seen.len(), error.may_be_billed), (CallErrorKind::Timeout, 1, true), "{error}");
    }
}

#[test]
fn dripping_forever_ends() {
    let patience = Patience { overall: Duration::from_millis(100), ..patience() };
    let comments = [b"HTTP/1.1 200 OK\r\n\r\n".to_vec(), b": hi\n".repeat(100_000)].concat();
    let error = play(vec![Act::Drip(comments, Duration::from_millis(1))], "", patience).0.unwrap_err();
    assert_eq!(error.kind, CallErrorKind::Timeout, "{error}");
}

#[test]
fn nobody_listens() {
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = model(entry(&format!("http://{address}/v1"), ""), patience()).ask(&request(), &Unwatched).unwrap_err();
    assert_eq!((error.kind, error.attempts, error.may_be_billed), (CallErrorKind::Unreachable, 2, false), "{error}");
    assert!(error.text.contains("check that the server runs"), "{error}");
    let unknown = entry("http://no-such-host.invalid/v1", "");
    let error = model(unknown, patience()).ask(&request(), &Unwatched).unwrap_err();
    // Where names are resolved by a proxy, the proxy answers instead.
    assert!(
        matches!(
            error.kind,
            CallErrorKind::Unreachable | CallErrorKind::Server | CallErrorKind::Rejected | CallErrorKind::KeyRefused
        ),
        "{error}"
    );
}

#[test]
fn another_model_is_noted() {
    let line = r#"{"model":"m-mini","choices":[{"delta":{"content":"x"},"finish_reason":"stop"}]}"#;
    let reply = play(vec![Act::Say(events(&[line], true))], "", patience()).0.unwrap();
    assert_eq!(reply.model, "m-mini");
    assert!(reply.notes.iter().any(|note| note.contains("m-mini answered")), "{:?}", reply.notes);
}

#[test]
fn a_prompt_that_was_cut_is_noted() {
    let server = Server::start(vec![Act::Say(hello())]);
    let mut long = request();
    long.turns[0].text = "word ".repeat(10_000);
    let reply = model(entry(&server.url(), ""), patience()).ask(&long, &Unwatched).unwrap();
    assert!(reply.notes.iter().any(|note| note.contains("may have cut it")), "{:?}", reply.notes);
}
