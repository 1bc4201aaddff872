//! Servers that are not ours: `transformers serve` with a tiny random model, and litellm's proxy, which speaks TLS, before it.
//!
//! `scripts/test-servers` installs and starts them and runs these tests; without it they are left out.

use std::time::Duration;

use kforge_models::{CallError, CallErrorKind, Entry, Model, Patience, Reply, Request, Stop, Unwatched};

use super::server::{model, patience, request};

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set: run scripts/test-servers"))
}

/// A model of `transformers serve`.
fn upstream(wire: &str) -> Entry {
    let (url, name) = (variable("KFORGE_TEST_UPSTREAM"), variable("KFORGE_TEST_UPSTREAM_MODEL"));
    let text = format!("name = 'tiny'\nwire = '{wire}'\nmodel = '{name}'\nbase_url = '{url}'\nno_key = true");
    toml::from_str(&text).unwrap()
}

/// A model of the proxy, which wants a key.
fn proxy(wire: &str, name: &str) -> Entry {
    let url = variable("KFORGE_TEST_PROXY");
    let version = if wire == "gemini" { "v1beta" } else { "v1" };
    let text = format!(
        "name = '{name}'\nwire = '{wire}'\nmodel = '{name}'\nbase_url = '{url}/{version}'\nkey_env = 'KFORGE_TEST_PROXY_KEY'"
    );
    toml::from_str(&text).unwrap()
}

fn words() -> Request {
    let mut request = request();
    request.system = "the kernel".into();
    request.turns[0].text = "fast tile".into();
    request.max_output_tokens = Some(6);
    request
}

fn ask(entry: Entry) -> Result<Reply, CallError> {
    let patience =
        Patience { attempts: 2, idle: Duration::from_mins(1), overall: Duration::from_mins(2), ..patience() };
    model(entry, patience).ask(&words(), &Unwatched)
}

fn ask_tiny(entry: Entry) -> Reply {
    let reply = ask(entry).unwrap();
    assert!(reply.text.split_whitespace().count() >= 6, "{reply:?}");
    assert!(reply.usage.output > Some(0) && reply.usage.input > Some(0), "{reply:?}");
    assert_eq!((reply.attempts, reply.cost_usd), (1, None));
    reply
}

#[test]
#[ignore = "needs servers: run scripts/test-servers"]
fn transformers_chat() {
    let reply = ask_tiny(upstream("openai-chat"));
    assert_eq!((reply.stop, reply.usage.input, reply.usage.output), (Stop::Length, Some(5), Some(6)));
    assert!(!reply.usage.estimated);
}

#[test]
#[ignore = "needs servers: run scripts/test-servers"]
fn transformers_responses() {
    let reply = ask_tiny(upstream("openai-responses"));
    assert_eq!((reply.usage.output, reply.usage.reasoning), (Some(6), Some(0)));
    assert_ne!(reply.stop, Stop::Unknown);
}

#[test]
#[ignore = "needs servers: run scripts/test-servers"]
fn proxy_chat() {
    let reply = ask_tiny(proxy("openai-chat", "tiny"));
    assert_eq!((reply.stop, reply.model.as_str(), reply.usage.output), (Stop::Length, "tiny", Some(6)));
    assert_eq!(ask(proxy("openai-chat", "mock")).unwrap().text, "hello from a mock");
}

#[test]
#[ignore = "needs servers: run scripts/test-servers"]
fn a_certificate_for_another_name() {
    let mut entry = proxy("openai-chat", "mock");
    entry.base_url = entry.base_url.replace("127.0.0.1", "localhost");
    let error = ask(entry).unwrap_err();
    assert_eq!((error.kind, error.attempts), (CallErrorKind::Unreachable, 1), "{error}");
    assert!(error.text.contains("certificate"), "{error}");
}

#[test]
#[ignore = "needs servers: run scripts/test-servers"]
fn proxy_responses() {
    ask_tiny(proxy("openai-responses", "bridged"));
}

#[test]
#[ignore = "needs servers: run scripts/test-servers"]
fn proxy_anthropic() {
    ask_tiny(proxy("anthropic", "tiny"));
}

#[test]
#[ignore = "needs servers: run scripts/test-servers"]
fn proxy_gemini() {
    assert_eq!(ask_tiny(proxy("gemini", "tiny")).stop, Stop::Length);
}

#[test]
#[ignore = "needs servers: run scripts/test-servers"]
fn proxy_limits_requests() {
    assert_eq!(ask(proxy("openai-chat", "once")).unwrap().text, "hello once");
    // The proxy asks for a minute; the test waits for a few seconds at most.
    let error = ask(proxy("openai-chat", "once")).unwrap_err();
    assert_eq!(error.kind, CallErrorKind::LimitReached { lifted_in: Some(Duration::from_mins(1)) }, "{error}");
    for wire in ["openai-chat", "anthropic"] {
        let error = ask(proxy(wire, "limited")).unwrap_err();
        assert_eq!((error.kind, error.attempts), (CallErrorKind::RateLimited, 2), "{error}");
    }
}

#[test]
#[ignore = "needs servers: run scripts/test-servers"]
fn proxy_refuses() {
    let error = ask(proxy("openai-chat", "too-long")).unwrap_err();
    assert_eq!((error.kind, error.attempts), (CallErrorKind::TooLong, 1), "{error}");
    let error = ask(proxy("anthropic", "too-long")).unwrap_err();
    assert_eq!((error.kind, error.attempts), (CallErrorKind::TooLong, 1), "{error}");
    let error = ask(proxy("openai-chat", "broken")).unwrap_err();
    assert_eq!((error.kind, error.attempts), (CallErrorKind::Server, 2), "{error}");
    let error = ask(proxy("openai-chat", "no-such-model")).unwrap_err();
    assert_eq!((error.kind, error.attempts), (CallErrorKind::Rejected, 1), "{error}");
}

#[test]
#[ignore = "needs servers: run scripts/test-servers"]
fn proxy_refuses_a_wrong_key() {
    for wire in ["openai-chat", "openai-responses", "anthropic", "gemini"] {
        let mut entry = proxy(wire, "mock");
        entry.key_env = None;
        entry.key_command = Some(["printf", "sk-wrong-0123456789"].map(String::from).to_vec());
        let error = ask(entry).unwrap_err();
        assert_eq!((error.kind, error.attempts), (CallErrorKind::KeyRefused, 1), "{wire}: {error}");
        assert!(!error.text.contains("0123456789"), "{error}");
    }
}
