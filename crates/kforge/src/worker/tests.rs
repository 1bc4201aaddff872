//! Order, failures, and a connection that ends, with a worker that only pretends.

use super::*;
use crate::job::{
    VERSION,
    exchange::{Exchange, Submitted},
    frame::{self, Message},
    tests::{options, packed, profiled},
};
use std::{
    io::{Read, Write},
    time::Duration,
};

/// Says which jobs it got.
#[derive(Default)]
struct Pretend {
    got: Vec<String>,
    /// Called in the middle of a job.
    during: Option<Box<dyn FnMut()>>,
    /// The device stops working in the job with this name.
    stops_at: Option<&'static str>,
    rested: bool,
}

impl Performer for Pretend {
    fn perform(&mut self, packed: &Packed, observer: &dyn Observer) -> (JobResult, Vec<Content>) {
        observer.stage("pretending");
        self.got.push(packed.job.work.name.clone());
        if let Some(during) = &mut self.during {
            during();
        }
        (profiled(&packed.job.id), Vec::new())
    }

    fn name(&self) -> &'static str {
        "pretend"
    }

    fn rest(&mut self) {
        self.rested = true;
    }

    fn out_of_use(&self) -> Option<String> {
        let stopped = self.got.iter().any(|name| Some(name.as_str()) == self.stops_at);
        stopped.then(|| "GPU 0 does not answer".to_owned())
    }
}

struct Quiet;

impl Observer for Quiet {
    fn stage(&self, _text: &str) {}
}

fn in_group(name: &str, fresh: bool) -> Packed {
    let one = packed(name);
    let work = crate::job::Work { options: crate::job::JobOptions { fresh, ..options() }, ..one.job.work };
    let mut made = Packed::new(work, one.files);
    // In the order in which they are made, also where the clock is coarse.
    made.job.created = jiff::Timestamp::from_second(name.parse().unwrap()).unwrap();
    made
}

#[test]
fn a_worker_without_work_gives_back_what_it_holds() {
    let folder = tempfile::tempdir().unwrap();
    let exchange = Exchange::open(folder.path()).unwrap();
    let at_work = std::sync::Mutex::default();
    for (warm, rested) in [(Duration::from_mins(1), false), (Duration::ZERO, true)] {
        exchange.submit(&in_group(if rested { "1" } else { "2" }, false)).unwrap();
        let mut performer = Pretend::default();
        let mut drain = Drain::new(&exchange, &mut performer, &Quiet, &at_work);
        drain.warm = warm;
        drain.run(true, Some(Duration::from_secs(2)), &mut |_| ()).unwrap();
        assert_eq!((performer.got.len(), performer.rested), (1, rested));
    }
}

#[test]
fn groups_stay_together_oldest_first() {
    let folder = tempfile::tempdir().unwrap();
    let exchange = Exchange::open(folder.path()).unwrap();
    for (name, fresh) in [("5", false), ("2", true), ("3", false), ("4", true), ("1", false)] {
        assert_eq!(exchange.submit(&in_group(name, fresh)).unwrap(), Submitted::New);
    }
    std::fs::create_dir_all(folder.path().join("pending/half")).unwrap();
    let mut performer = Pretend::default();
    let mut lines = Vec::new();
    let at_work = std::sync::Mutex::default();
    let mut drain = Drain::new(&exchange, &mut performer, &Quiet, &at_work);
    drain.run(false, None, &mut |finished| lines.push(finished.job.id.clone())).unwrap();
    let report = drain.report.clone();
    assert_eq!((report.jobs, report.failed, lines.len()), (5, 0, 5));
    assert!(report.left_alone["half"].contains("job.json"), "{report:?}");
    assert_eq!(performer.got, ["1", "3", "5", "2", "4"]);
}

#[test]
fn no_job_is_taken_for_a_device_that_is_out_of_use() {
    let folder = tempfile::tempdir().unwrap();
    let exchange = Exchange::open(folder.path()).unwrap();
    for name in ["1", "2", "3"] {
        exchange.submit(&in_group(name, false)).unwrap();
    }
    let mut performer = Pretend { stops_at: Some("2"), ..Pretend::default() };
    let at_work = std::sync::Mutex::default();
    let mut drain = Drain::new(&exchange, &mut performer, &Quiet, &at_work);
    drain.run(true, None, &mut |_| {}).unwrap();
    let report = drain.report.clone();
    assert_eq!(report.jobs, 2);
    assert!(report.out_of_use.iter().eq(["GPU 0 does not answer"]), "{report:?}");
    assert_eq!((performer.got.as_slice(), exchange.waiting().len()), (&["1".to_owned(), "2".to_owned()][..], 1));
}

#[test]
fn no_job_is_begun_after_the_limit() {
    let folder = tempfile::tempdir().unwrap();
    let exchange = Exchange::open(folder.path()).unwrap();
    exchange.submit(&packed("a")).unwrap();
    let mut performer = Pretend::default();
    let at_work = std::sync::Mutex::default();
    Drain::new(&exchange, &mut performer, &Quiet, &at_work)
        .run(true, Some(std::time::Duration::ZERO), &mut |_| {})
        .unwrap();
    assert!(performer.got.is_empty() && exchange.waiting().len() == 1);
}

fn sent(jobs: &[Packed]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for job in jobs {
        frame::send(&mut bytes, &Message::Job { id: job.job.id.clone() }, &job.contents().unwrap()).unwrap();
    }
    bytes
}

/// Gives its bytes, then waits until it is let go: a connection that is open.
struct Open(std::io::Cursor<Vec<u8>>, std::sync::mpsc::Receiver<()>);

impl Read for Open {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.0.read(buffer)?;
        if count == 0 {
            let _ = self.1.recv();
        }
        Ok(count)
    }
}

/// Lets go when so many answers were written; breaks like a pipe when told so.
struct Answers {
    bytes: Vec<u8>,
    wanted: usize,
    hang_up: Option<std::sync::mpsc::Sender<()>>,
    broken: bool,
}

impl Write for Answers {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.broken {
            return Err(std::io::ErrorKind::BrokenPipe.into());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        if results(&self.bytes).len() >= self.wanted {
            self.hang_up = None;
        }
        Ok(())
    }
}

fn results(mut bytes: &[u8]) -> Vec<String> {
    let mut found = Vec::new();
    while let Ok(Some((message, _))) = frame::receive(&mut bytes) {
        if let Message::Result { id } = message {
            found.push(id);
        }
    }
    found
}

fn line(jobs: &[Packed], wanted: usize, broken: bool) -> (Open, Answers) {
    let (hang_up, waits) = std::sync::mpsc::channel();
    let hang_up = (wanted > 0).then_some(hang_up);
    (Open(std::io::Cursor::new(sent(jobs)), waits), Answers { bytes: Vec::new(), wanted, hang_up, broken })
}

#[test]
fn served_jobs_are_answered_and_found_again_by_the_next_connection() {
    let folder = tempfile::tempdir().unwrap();
    let exchange = Exchange::open(folder.path()).unwrap();
    let jobs = [packed("a"), packed("b")];
    let mut performer = Pretend::default();
    for _ in 0..2 {
        let (input, mut output) = line(&jobs, 2, false);
        serve(&exchange, &mut performer, input, &mut output).unwrap();
        let (first, _) = frame::receive(&mut output.bytes.as_slice()).unwrap().unwrap();
        assert!(matches!(first, Message::Hello { version: VERSION, .. }), "{first:?}");
        assert_eq!(results(&output.bytes).len(), 2);
    }
    assert_eq!(performer.got.len(), 2, "nothing is judged twice");
}

#[test]
fn a_lost_connection_loses_no_work_and_leaves_none_behind() {
    let folder = tempfile::tempdir().unwrap();
    let exchange = Exchange::open(folder.path()).unwrap();
    let jobs = [packed("a"), packed("b"), packed("c")];
    let (hang_up, waits) = std::sync::mpsc::channel::<()>();
    let hang_up = std::cell::RefCell::new(Some(hang_up));
    // The other side goes away in the middle of the first job.
    let leave = move || {
        hang_up.take();
        std::thread::sleep(std::time::Duration::from_millis(300));
    };
    let mut performer = Pretend { during: Some(Box::new(leave)), ..Pretend::default() };
    let mut output = Answers { bytes: Vec::new(), wanted: usize::MAX, hang_up: None, broken: true };
    serve(&exchange, &mut performer, Open(std::io::Cursor::new(sent(&jobs)), waits), &mut output).unwrap();
    let done = performer.got.len();
    assert!((1..3).contains(&done), "the job at hand is finished, the others are not begun: {done}");
    assert!(exchange.waiting().is_empty(), "what nobody asks for any more does not wait");
    let (input, mut output) = line(&jobs, 3, false);
    performer.during = None;
    serve(&exchange, &mut performer, input, &mut output).unwrap();
    assert_eq!(results(&output.bytes).len(), 3);
    assert_eq!(performer.got.len(), 3, "nothing is judged twice");
}

#[test]
fn jobs_that_an_earlier_connection_took_back_are_put_in_again() {
    let folder = tempfile::tempdir().unwrap();
    let exchange = Exchange::open(folder.path()).unwrap();
    let jobs = [packed("a"), packed("b"), packed("c")];
    let (taken, mut left) = (exchange.clone(), 1);
    let take_back = move || {
        for id in taken.waiting().iter().take(if left > 0 { 2 } else { 0 }) {
            taken.withdraw(id);
        }
        left = 0;
    };
    let mut performer = Pretend { during: Some(Box::new(take_back)), ..Pretend::default() };
    let (input, mut output) = line(&jobs, 3, false);
    serve(&exchange, &mut performer, input, &mut output).unwrap();
    assert_eq!((results(&output.bytes).len(), performer.got.len()), (3, 3));
}

#[test]
fn a_job_that_makes_no_sense_is_answered_in_words() {
    let folder = tempfile::tempdir().unwrap();
    let exchange = Exchange::open(folder.path()).unwrap();
    let mut bytes = Vec::new();
    let wrong = [Content::new("job.json", r#"{"version": 7}"#)];
    frame::send(&mut bytes, &Message::Job { id: "x".to_owned() }, &wrong).unwrap();
    let mut output = Vec::new();
    serve(&exchange, &mut Pretend::default(), std::io::Cursor::new(bytes), &mut output).unwrap();
    let mut reader = output.as_slice();
    frame::receive(&mut reader).unwrap();
    let said = frame::receive(&mut reader).unwrap().unwrap().0;
    assert!(matches!(&said, Message::Failed { text } if text.contains("form 7")), "{said:?}");
}
