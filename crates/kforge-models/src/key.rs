//! Keys: where they come from, and how they stay out of everything that is written down.

use std::fmt;
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::cancelled;
use crate::{CallError, CallErrorKind, Watch};

/// A key command has this long, a person who must unlock a store included.
const COMMAND_TIME: Duration = Duration::from_mins(1);
/// No key is longer.
const LONGEST_KEY: u64 = 64 << 10;
/// Shared runs of this many characters are taken for a piece of the key.
const TELLING_RUN: usize = 8;

/// A key of fewer characters than this is no secret.
const SHORTEST_SECRET: usize = 4;

/// Where a key comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum KeySource {
    /// The server wants none.
    None,
    /// The environment variable of this name.
    Environment(String),
    /// The output of this program, run for each call.
    Command(Vec<String>),
}

/// A key. Its `Debug` shows nothing, and it has no `Display`.
#[derive(Clone)]
pub(crate) struct Key(String);

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

impl Key {
    /// For the header of a request, and nothing else.
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }

    /// Takes the key, and long pieces of it, out of a text that a server wrote.
    pub(crate) fn scrub(&self, text: &str) -> String {
        let key: Vec<char> = self.0.chars().collect();
        let run = TELLING_RUN;
        if key.len() < run {
            return self.scrub_alone(text);
        }
        let text: Vec<char> = text.chars().collect();
        let mut clean = String::with_capacity(text.len());
        let mut at = 0;
        while at < text.len() {
            let here = &text[at..];
            let longest = (0..=key.len() - run)
                .map(|start| key[start..].iter().zip(here).take_while(|(a, b)| a == b).count())
                .max()
                .unwrap_or(0);
            if longest >= run {
                clean.push_str("[key]");
                at += longest;
            } else {
                clean.push(text[at]);
                at += 1;
            }
        }
        clean
    }

    /// The same of a short key, such as the placeholders that local servers are given: where it stands alone, and not where it
    /// is a part of words. One of a few letters is no secret, and would take half of the text with it.
    fn scrub_alone(&self, text: &str) -> String {
        if self.0.len() < SHORTEST_SECRET {
            return text.to_owned();
        }
        let mut clean = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find(&self.0) {
            let (before, after) = (&rest[..at], &rest[at + self.0.len()..]);
            let joins = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
            let last = before.chars().next_back().or(clean.chars().next_back());
            clean.push_str(before);
            clean.push_str(if joins(last) || joins(after.chars().next()) { &self.0 } else { "[key]" });
            rest = after;
        }
        clean + rest
    }

    /// Takes the whole key out of a reply, which is long and whose wording matters: pieces are left alone.
    pub(crate) fn scrub_whole(&self, text: String) -> String {
        if self.0.len() >= TELLING_RUN && text.contains(&self.0) { text.replace(&self.0, "[key]") } else { text }
    }
}

impl KeySource {
    /// Reads the key now. `model` is for the error text; the watcher may end a command that takes its time.
    pub(crate) fn fetch(&self, model: &str, watch: &dyn Watch) -> Result<Option<Key>, CallError> {
        match self {
            Self::None => Ok(None),
            Self::Environment(variable) => {
                let value = std::env::var_os(variable).unwrap_or_default();
                let missing = format!(
                    "no key for {model}: the environment variable {variable} is not set; \
                     set it, or name another one with key_env in the registry"
                );
                let unfit = format!("the environment variable {variable} holds no key that can be sent; set it again");
                check(&value.to_string_lossy(), &missing, &unfit).map(Some)
            }
            Self::Command(argv) => {
                let program = argv.first().map_or("", String::as_str);
                let output = run(argv, watch).map_err(|cause| {
                    if watch.cancelled() {
                        return CallError { attempts: 0, ..cancelled("the key command") };
                    }
                    no_key(format!("no key for {model}: key_command {program} {cause}; run it by hand to see why"))
                })?;
                let missing =
                    format!("no key for {model}: key_command {program} printed nothing; run it by hand to see why");
                let unfit = format!("key_command {program} printed more than a key; let it print the key alone");
                check(&output, &missing, &unfit).map(Some)
            }
        }
    }
}

fn no_key(text: String) -> CallError {
    CallError { kind: CallErrorKind::NoKey, text, attempts: 0, may_be_billed: false }
}

fn check(value: &str, missing: &str, unfit: &str) -> Result<Key, CallError> {
    match value.trim() {
        "" => Err(no_key(missing.to_owned())),
        key if key.chars().all(|c| c.is_ascii_graphic()) => Ok(Key(key.to_owned())),
        _ => Err(no_key(unfit.to_owned())),
    }
}

/// Runs a key command with bounded time and output. What it writes to stderr is dropped: it may hold secrets.
fn run(argv: &[String], watch: &dyn Watch) -> Result<String, String> {
    let (program, rest) = argv.split_first().ok_or("is empty")?;
    let mut child = Command::new(program)
        .args(rest)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| format!("cannot be started ({error})"))?;
    let Some(stdout) = child.stdout.take() else { return Err("has no output".into()) };
    // Read on a thread of its own: a grandchild may hold the pipe open long after the child has ended.
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let outcome = stdout.take(LONGEST_KEY).read_to_end(&mut bytes).map(|_| bytes);
        let _ = sender.send(outcome);
    });
    let deadline = Instant::now() + COMMAND_TIME;
    let outcome = wait(&mut child, deadline, watch);
    if outcome.is_err() {
        let _ = child.kill();
        let _ = child.wait();
    }
    outcome?;
    match receiver.recv_timeout(Duration::from_secs(2)) {
        Ok(Ok(bytes)) => String::from_utf8(bytes).map_err(|_| "printed something that is no text".to_owned()),
        Ok(Err(error)) => Err(format!("cannot be read ({error})")),
        Err(_) => Err("left its output open".into()),
    }
}

fn wait(child: &mut Child, deadline: Instant, watch: &dyn Watch) -> Result<(), String> {
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(()),
            Ok(Some(status)) => return Err(format!("ended with {status}")),
            Ok(None) if Instant::now() > deadline => {
                return Err(format!("did not end within {} s", COMMAND_TIME.as_secs()));
            }
            Ok(None) if watch.cancelled() => return Err("was ended by the watcher".into()),
            Ok(None) => std::thread::sleep(Duration::from_millis(10)),
            Err(error) => return Err(format!("cannot be watched ({error})")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Unwatched;

    #[test]
    fn debug_shows_nothing() {
        assert_eq!(format!("{:?}", Key("sk-secret-value".into())), "Key(..)");
    }

    #[test]
    fn whole_keys_and_long_pieces_are_scrubbed() {
        let key = Key("sk-abcdefghijklmnop".into());
        assert_eq!(key.scrub("key 'sk-abcdefghijklmnop' is bad"), "key '[key]' is bad");
        assert_eq!(key.scrub("key sk-abcdefgh*** is bad"), "key [key]*** is bad");
        assert_eq!(key.scrub("ends with ijklmnop"), "ends with [key]");
        assert_eq!(key.scrub("nothing of it: sk-abc"), "nothing of it: sk-abc");
        assert_eq!(key.scrub_whole("say sk-abcdefghijklmnop".into()), "say [key]");
    }

    #[test]
    fn a_short_key_does_not_take_ordinary_letters_with_it() {
        let scrub = |key: &str, text: &str| Key(key.into()).scrub(text);
        assert_eq!(scrub("a", "a server that has a bad day"), "a server that has a bad day");
        assert_eq!(scrub("abc", "xabcx abc"), "xabcx abc");
        assert_eq!(
            scrub("EMPTY", "the key 'EMPTY' is wrong, EMPTY-1, EMPTYING"),
            "the key '[key]' is wrong, [key]-1, EMPTYING"
        );
        assert_eq!(scrub("test", "testing a test: latest test_1 test"), "testing a [key]: latest test_1 [key]");
        assert_eq!(scrub("testtest", "a testtest"), "a [key]");
        assert_eq!(scrub("abab", "ababab abab"), "ababab [key]");
    }

    #[test]
    fn a_missing_variable_is_named() {
        let source = KeySource::Environment("KFORGE_TEST_NO_SUCH_KEY".into());
        let error = source.fetch("m", &Unwatched).unwrap_err();
        assert_eq!(error.kind, CallErrorKind::NoKey);
        assert!(error.text.contains("KFORGE_TEST_NO_SUCH_KEY"), "{}", error.text);
    }

    #[test]
    fn the_watcher_ends_a_command() {
        struct Ended;
        impl Watch for Ended {
            fn cancelled(&self) -> bool {
                true
            }
        }
        let source = KeySource::Command(vec!["sleep".into(), "1000".into()]);
        let error = source.fetch("m", &Ended).unwrap_err();
        assert_eq!((error.kind, error.attempts), (CallErrorKind::Cancelled, 0), "{error}");
    }

    #[test]
    fn commands_print_keys() {
        let key =
            |script: &str| KeySource::Command(vec!["sh".into(), "-c".into(), script.into()]).fetch("m", &Unwatched);
        assert_eq!(key("echo; echo '  k-123 '").unwrap().unwrap().expose(), "k-123");
        for script in ["exit 3", "true", "echo two words", "printf 'a\\nb'"] {
            assert_eq!(key(script).unwrap_err().kind, CallErrorKind::NoKey, "{script}");
        }
        let absent = KeySource::Command(vec!["/no/such/program".into()]).fetch("m", &Unwatched).unwrap_err();
        assert!(absent.text.contains("/no/such/program"), "{}", absent.text);
    }
}
