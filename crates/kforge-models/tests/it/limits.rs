//! Watching, cancelling, limits that are shared, and other runtimes.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use kforge_models::{CallErrorKind, HttpModel, Model, Patience, Registry, Unwatched, Watch, open};

use super::server::{Act, HELLO, Server, entry, events, hello, model, patience, play_watched, request, response};

/// Remembers what it was told and ends the call after so many questions.
#[derive(Default)]
struct Watcher {
    received: AtomicUsize,
    waiting: Mutex<Vec<String>>,
    asked: AtomicUsize,
    patience: usize,
}

impl Watch for Watcher {
    fn received(&self, characters: usize) {
        self.received.store(characters, Ordering::SeqCst);
    }

    fn waiting(&self, text: &str) {
        self.waiting.lock().unwrap().push(text.to_owned());
    }

    fn cancelled(&self) -> bool {
        self.asked.fetch_add(1, Ordering::SeqCst) >= self.patience
    }
}

#[test]
fn progress_is_told() {
    let watch = Watcher { patience: usize::MAX, ..Watcher::default() };
    let script = vec![Act::Say(response(503, "", "busy")), Act::Say(hello())];
    play_watched(script, "", patience(), &watch).0.unwrap();
    assert_eq!(watch.received.load(Ordering::SeqCst), 5);
    let waiting = watch.waiting.lock().unwrap();
    assert!(waiting.len() == 1 && waiting[0].contains("busy") && waiting[0].contains("trying again"), "{waiting:?}");
}

#[test]
fn cancelled_while_nothing_comes() {
    let watch = Watcher { patience: 2, ..Watcher::default() };
    let (outcome, _) = play_watched(vec![Act::Hang(events(&HELLO[..1], false))], "", patience(), &watch);
    let error = outcome.unwrap_err();
    assert_eq!((error.kind, error.attempts, error.may_be_billed), (CallErrorKind::Cancelled, 1, true));
}

#[test]
fn cancelled_during_a_pause() {
    let watch = Watcher { patience: 4, ..Watcher::default() };
    let patience = Patience { longest_wait: Duration::from_hours(2), ..patience() };
    let script = vec![Act::Say(response(429, "retry-after: 3600\r\n", "{}"))];
    let error = play_watched(script, "", patience, &watch).0.unwrap_err();
    assert_eq!((error.kind, error.may_be_billed), (CallErrorKind::Cancelled, false));
}

#[test]
fn models_of_one_entry_share_its_limits() {
    let registry = Registry::load(None).unwrap();
    let server = Server::start(vec![Act::Say(hello())]);
    let entry = entry(&server.url(), "requests_per_minute = 1");
    let first = HttpModel::new("test", entry.clone(), &registry).unwrap();
    let second = HttpModel::new("test", entry, &registry).unwrap();
    first.ask(&request(), &Unwatched).unwrap();
    let watch = Watcher { patience: 1, ..Watcher::default() };
    let error = second.ask(&request(), &watch).unwrap_err();
    assert_eq!((error.kind, error.attempts), (CallErrorKind::Cancelled, 0));
    assert!(watch.waiting.lock().unwrap()[0].contains("limits"));
    assert_eq!(server.seen().len(), 1);
}

#[test]
fn many_threads_share_a_model() {
    let server = Server::start(vec![Act::Say(hello())]);
    let model = model(entry(&server.url(), "max_parallel = 3"), patience());
    std::thread::scope(|scope| {
        for _ in 0..12 {
            scope.spawn(|| assert_eq!(model.ask(&request(), &Unwatched).unwrap().text, "hello"));
        }
    });
    assert_eq!(server.seen().len(), 12);
}

#[test]
fn a_call_inside_another_runtime() {
    let server = Server::start(vec![Act::Say(hello())]);
    let model = model(entry(&server.url(), ""), patience());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let text = runtime.block_on(async { model.ask(&request(), &Unwatched).unwrap().text });
    assert_eq!(text, "hello");
}

#[test]
fn names_open() {
    let server = Server::start(vec![Act::Say(hello())]);
    let registry = Registry::load(None).unwrap();
    let name = format!("vllm:m@http://{}", server.address);
    let model = open(&name, &registry).unwrap();
    assert_eq!(model.name(), name);
    assert_eq!(model.ask(&request(), &Unwatched).unwrap().text, "hello");
    assert!(open("gtp-5", &registry).err().unwrap().text.contains("gpt-5"));
    assert!(open("gpt-5", &registry).is_ok(), "no key is needed before the first call");
}
