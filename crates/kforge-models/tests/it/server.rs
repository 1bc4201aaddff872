//! A server on a thread: each connection gets the next act of a script, and what was asked is kept.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kforge_models::{
    CallError, Entry, HttpModel, Label, Model, Patience, Registry, Reply, Request, Speaker, Turn, Unwatched, Watch,
};

/// What the server does with one connection.
#[derive(Clone)]
pub(crate) enum Act {
    /// Writes this and closes.
    Say(Vec<u8>),
    /// Writes this, one byte at a time, with a pause before each.
    Drip(Vec<u8>, Duration),
    /// Writes this and keeps the connection open, silent.
    Hang(Vec<u8>),
    /// Writes this block again and again until the client has enough.
    Flood(Vec<u8>, Vec<u8>),
}

/// A request as it came.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) head: String,
    pub(crate) body: String,
}

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Server {
    /// The last act is repeated.
    pub(crate) fn start(script: Vec<Act>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&seen);
        std::thread::spawn(move || {
            for (index, stream) in listener.incoming().enumerate() {
                let act = script[index.min(script.len() - 1)].clone();
                let kept = Arc::clone(&kept);
                std::thread::spawn(move || {
                    // A client that leaves early is part of the play.
                    let _ = serve(&stream.unwrap(), act, &kept);
                });
            }
        });
        Self { address, seen }
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }
}

fn serve(stream: &TcpStream, act: Act, kept: &Mutex<Vec<Seen>>) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    let mut request = Seen::default();
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 || line == "\r\n" {
            break;
        }
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
        request.head.push_str(&line);
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    request.body = String::from_utf8_lossy(&body).into_owned();
    kept.lock().unwrap().push(request);
    let mut out = stream;
    match act {
        Act::Say(bytes) => out.write_all(&bytes),
        Act::Drip(bytes, pause) => bytes.chunks(1).try_for_each(|byte| {
            std::thread::sleep(pause);
            out.write_all(byte)
        }),
        Act::Hang(bytes) => {
            out.write_all(&bytes)?;
            // Until the client closes.
            reader.read_to_end(&mut Vec::new()).map(|_| ())
        }
        Act::Flood(head, block) => {
            out.write_all(&head)?;
            loop {
                out.write_all(&block)?;
            }
        }
    }
}

/// A response with a length, so that its end is known.
pub(crate) fn response(status: u16, headers: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 {status} X\r\ncontent-length: {length}\r\nconnection: close\r\n{headers}\r\n{body}").into_bytes()
}

/// A stream of events in chunks; `complete` says whether the last chunk is sent.
pub(crate) fn events(lines: &[&str], complete: bool) -> Vec<u8> {
    let mut text =
        String::from("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n");
    for line in lines {
        let event = format!("data: {line}\n\n");
        text.extend([&format!("{:x}\r\n", event.len()), event.as_str(), "\r\n"]);
    }
    if complete {
        text.push_str("0\r\n\r\n");
    }
    text.into_bytes()
}

pub(crate) const HELLO: &[&str] = &[
    r#"{"model":"m","choices":[{"delta":{"content":"hel"}}]}"#,
    r#"{"model":"m","choices":[{"delta":{"content":"lo"},"finish_reason":"stop"}]}"#,
    r#"{"model":"m","choices":[],"usage":{"prompt_tokens":1000,"completion_tokens":100}}"#,
    "[DONE]",
];

pub(crate) fn hello() -> Vec<u8> {
    events(HELLO, true)
}

/// Short enough for tests, in the proportions of the real ones.
pub(crate) fn patience() -> Patience {
    Patience {
        connect: Duration::from_secs(5),
        idle: Duration::from_secs(20),
        overall: Duration::from_secs(40),
        attempts: 4,
        connect_attempts: 2,
        first_pause: Duration::from_millis(2),
        longest_pause: Duration::from_millis(10),
        longest_wait: Duration::from_secs(5),
    }
}

pub(crate) fn entry(url: &str, more: &str) -> Entry {
    let key = if more.contains("key_") { "" } else { "no_key = true" };
    toml::from_str(&format!("name = 'test'\nwire = 'openai-chat'\nmodel = 'm'\nbase_url = '{url}'\n{key}\n{more}"))
        .unwrap()
}

pub(crate) fn model(entry: Entry, patience: Patience) -> HttpModel {
    HttpModel::with_patience("test", entry, &Registry::load(None).unwrap(), patience).unwrap()
}

pub(crate) fn request() -> Request {
    Request {
        label: Label {
            problem: "p".into(),
            problem_hash: "h".into(),
            target: "cpu/cpp".into(),
            role: "generator".into(),
            ordinal: 1,
        },
        system: "Be brief.".into(),
        turns: vec![Turn { speaker: Speaker::User, text: "Say hello.".into() }],
        images: Vec::new(),
        max_output_tokens: Some(16),
        temperature: None,
        effort: None,
    }
}

/// Plays the script to one call.
pub(crate) fn play(script: Vec<Act>, more: &str, patience: Patience) -> (Result<Reply, CallError>, Vec<Seen>) {
    play_watched(script, more, patience, &Unwatched)
}

pub(crate) fn play_watched(
    script: Vec<Act>,
    more: &str,
    patience: Patience,
    watch: &dyn Watch,
) -> (Result<Reply, CallError>, Vec<Seen>) {
    let server = Server::start(script);
    let outcome = model(entry(&server.url(), more), patience).ask(&request(), watch);
    (outcome, server.seen())
}
