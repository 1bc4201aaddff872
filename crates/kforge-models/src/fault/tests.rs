use serde_json::json;

use super::*;
use CallErrorKind::{KeyRefused, LimitReached, RateLimited, Rejected, Server, TooLong};

fn kind(status: u16, body: &str) -> CallErrorKind {
    of_status(status, body.as_bytes(), None).kind
}

#[test]
fn vendors_bodies() {
    let cases: &[(u16, &str, CallErrorKind)] = &[
        (
            401,
            r#"{"error":{"message":"Incorrect API key provided","type":"invalid_request_error","code":"invalid_api_key"}}"#,
            KeyRefused,
        ),
        (403, "forbidden", KeyRefused),
        (404, r#"{"error":{"message":"The model `x` does not exist","code":"model_not_found"}}"#, Rejected),
        (
            400,
            r#"{"error":{"message":"This model's maximum context length is 8192 tokens.","code":"context_length_exceeded"}}"#,
            TooLong,
        ),
        (
            400,
            r#"{"object":"error","message":"This model's maximum context length is 4096 tokens","type":"BadRequestError","code":400}"#,
            TooLong,
        ),
        (
            400,
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}}"#,
            TooLong,
        ),
        (
            413,
            r#"{"type":"error","error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}"#,
            TooLong,
        ),
        (
            400,
            r#"{"error":{"code":400,"message":"The input token count (2000000) exceeds the maximum number of tokens allowed (1048576).","status":"INVALID_ARGUMENT"}}"#,
            TooLong,
        ),
        (
            400,
            r#"[{"error":{"code":400,"message":"API key not valid.","status":"INVALID_ARGUMENT","details":[{"reason":"API_KEY_INVALID"}]}}]"#,
            KeyRefused,
        ),
        (
            400,
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low"}}"#,
            LimitReached { lifted_in: None },
        ),
        (
            429,
            r#"{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","code":"insufficient_quota"}}"#,
            LimitReached { lifted_in: None },
        ),
        (402, r#"{"error":{"message":"Insufficient Balance"}}"#, LimitReached { lifted_in: None }),
        (429, r#"{"type":"error","error":{"type":"rate_limit_error","message":"slow down"}}"#, RateLimited),
        (529, r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#, Server),
        (400, r#"{"error":{"message":"No connected db.","type":"no_db_connection","code":"400"}}"#, KeyRefused),
        (502, "<html>Bad gateway</html>", Server),
        (422, r#"{"detail":[{"loc":["body","x"],"msg":"field required"}]}"#, Rejected),
        (404, r#"{"error":"model 'x' not found"}"#, Rejected),
        (301, "", Rejected),
    ];
    for (status, body, expected) in cases {
        assert_eq!(kind(*status, body), *expected, "{status} {body}");
    }
}

#[test]
fn only_what_may_pass_is_tried_again() {
    for (status, retry) in
        [(429, true), (408, true), (500, true), (503, true), (529, true), (400, false), (401, false), (404, false)]
    {
        assert_eq!(of_status(status, b"{}", None).retry, retry, "{status}");
    }
}

#[test]
fn errors_inside_streams() {
    assert_eq!(
        of_error(&json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}})).kind,
        Server
    );
    assert_eq!(of_error(&json!({"error": {"code": 429, "message": "wait"}})).kind, RateLimited);
    assert_eq!(of_error(&json!({"error": {"code": "502", "message": "upstream"}})).kind, Server);
    assert_eq!(of_error(&json!({"code": "context_length_exceeded", "message": "too long"})).kind, TooLong);
    assert_eq!(of_error(&json!({"error": {"message": "strange"}})).kind, Rejected);
    assert!(of_error(&json!({"error": "x"})).billed);
}

#[test]
fn pauses_in_bodies() {
    let seconds = |body: &str| of_status(429, body.as_bytes(), None).retry_in.map(|pause| pause.as_secs_f64());
    assert_eq!(seconds(r#"{"error":{"details":[{"@type":"RetryInfo","retryDelay":"34.5s"}]}}"#), Some(34.5));
    assert_eq!(seconds(r#"{"error":{"message":"Please try again in 1m30s. Visit ..."}}"#), Some(90.0));
    assert_eq!(seconds(r#"{"error":{"message":"Please try again in 20ms."}}"#), Some(0.02));
    assert_eq!(seconds(r#"{"error":{"message":"try again in 5 minutes"}}"#), Some(300.0));
    assert_eq!(seconds(r#"{"error":{"message":"try again in a while"}}"#), None);
    assert_eq!(seconds(r#"{"error":{"message":"try again in 9999999999999999999999999999h"}}"#), None);
    let told = of_status(429, br#"{"error":{"message":"try again in 5s"}}"#, Some(Duration::from_secs(9)));
    assert_eq!(told.retry_in, Some(Duration::from_secs(9)), "the header is nearer to the truth");
}

#[test]
fn retry_after_as_seconds_and_as_date() {
    let now: jiff::Timestamp = "1994-11-06T08:49:07Z".parse().unwrap();
    assert_eq!(retry_after(" 7 ", now), Some(Duration::from_secs(7)));
    assert_eq!(retry_after("Sun, 06 Nov 1994 08:49:37 GMT", now), Some(Duration::from_secs(30)));
    assert_eq!(retry_after("Sun, 06 Nov 1994 08:48:37 GMT", now), Some(Duration::ZERO));
    for bad in ["", "soon", "-3", "NaN", "1e400"] {
        assert_eq!(retry_after(bad, now), None, "{bad}");
    }
}

#[test]
fn words_are_bounded_and_clean() {
    let fault = of_status(400, "\u{1b}[31mred\r\n  and   long ".repeat(10_000).as_bytes(), None);
    assert!(fault.message.chars().count() < LONGEST_MESSAGE + 60);
    assert!(!fault.message.contains(['\u{1b}', '\n']));
}
