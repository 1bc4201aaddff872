//! Agent programs as models: the prompt on standard input, the reply on standard output.
//!
//! The program starts in an empty folder, with an environment of named variables only, in a process group that is
//! killed at the end. Which of its flags switch its own tools off is said in its arguments, by the registry or the user.

mod json;
mod limit;
mod process;
#[cfg(test)]
mod tests;

pub use json::JsonFields;

use crate::support::{ESTIMATED, cancelled, estimated_usage, failure, plain_text, tail};
use crate::{CallError, CallErrorKind, Model, Prices, Reply, Request, Stop, Watch};
use limit::{Limit, limit_text};
use process::{Bounds, End, Ran};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Seek, Write};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

const MAX_REPLY: usize = 4 << 20;

/// What a program that ended well may print and still have its words read as "limit reached".
const SHORT: usize = 400;

/// What goes on to the program without being named. Logins of agent programs lie under the home folder; the rest is how
/// to speak, where to write, and how to reach the network. No key is among them.
const PASSED: &[&str] = &[
    "HOME",
    "PATH",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "TZ",
    "TMPDIR",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "ALL_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "all_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
];
const PASSED_PREFIXES: &[&str] = &["LC_", "XDG_"];

/// How a program is run.
#[derive(Debug, Clone)]
pub(crate) struct CommandOptions {
    /// Names of variables that go on to it besides `HOME`, `PATH`, language, proxies and certificates. Keys, for example.
    pub pass_env: Vec<String>,
    /// It is ended after this time in all.
    pub timeout: Duration,
    /// It is ended after this time without a byte. Many programs say nothing until the reply is complete.
    pub idle_timeout: Duration,
    /// It prints a JSON object with these fields; plain text otherwise.
    pub json: Option<JsonFields>,
    /// What its tokens cost, where it does not say.
    pub price: Option<Prices>,
}

impl Default for CommandOptions {
    fn default() -> Self {
        Self {
            pass_env: Vec::new(),
            timeout: Duration::from_mins(30),
            idle_timeout: Duration::from_mins(20),
            json: None,
            price: None,
        }
    }
}

/// A program that answers.
pub(crate) struct Command {
    name: String,
    argv: Vec<String>,
    options: CommandOptions,
}

impl Command {
    /// The model `name` is the program `argv[0]` with the arguments that follow; no shell is between.
    pub(crate) fn new(name: impl Into<String>, argv: Vec<String>, options: CommandOptions) -> Self {
        Self { name: name.into(), argv, options }
    }

    fn run(&self, prompt: &str, watch: &dyn Watch) -> Result<Ran, CallError> {
        let Some((program, arguments)) = self.argv.split_first() else {
            let text = format!("the model {} names no program: give its command in the registry", self.name);
            return Err(failure(CallErrorKind::Setup, text));
        };
        let unprepared = |error: io::Error| {
            let text =
                format!("cannot prepare the run of {program} ({error}): check the space in the temporary folder");
            failure(CallErrorKind::Setup, text)
        };
        let folder = tempfile::tempdir().map_err(unprepared)?;
        // A file, not a pipe: nobody has to feed it, and a program that never reads it blocks nobody.
        let stdin = prompt_file(prompt).map_err(unprepared)?;
        let mut command = std::process::Command::new(in_any_folder(program));
        command.args(arguments).current_dir(folder.path()).stdin(Stdio::from(stdin)).env_clear();
        command.envs(std::env::vars_os().filter(|(name, _)| is_passed(name, &self.options.pass_env)));
        command.env("TERM", "dumb").env("NO_COLOR", "1");
        let bounds = Bounds { total: self.options.timeout, idle: self.options.idle_timeout, stdout: MAX_REPLY };
        process::run(&mut command, &bounds, watch).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => failure(
                CallErrorKind::Setup,
                format!("cannot find the program {program}: install it, or add its folder to PATH"),
            ),
            _ => failure(
                CallErrorKind::Setup,
                format!("cannot run {program} ({error}): check that it is executable and made for this machine"),
            ),
        })
    }

    /// What it said, or why that is no reply.
    fn reply(&self, ran: Ran) -> Result<json::Said, CallError> {
        let program = self.argv.first().map_or("", String::as_str);
        let stderr = self.for_people(&String::from_utf8_lossy(&ran.stderr));
        let status = match ran.end {
            End::Exited(status) => status,
            End::Cancelled => return Err(billed(cancelled(&format!("the call of {program}")))),
            End::TooMuch => {
                let text = format!(
                    "{program} printed more than {} MiB and was stopped: check its arguments, it should print the reply alone",
                    MAX_REPLY >> 20
                );
                return Err(billed(failure(CallErrorKind::Command, text)));
            }
            End::TooLong => return Err(self.timed_out(&stderr, "did not end", self.options.timeout)),
            End::Silent => return Err(self.timed_out(&stderr, "said nothing", self.options.idle_timeout)),
        };
        let Ok(stdout) = String::from_utf8(ran.stdout) else {
            let text = format!("{program} printed bytes that are not UTF-8 text: run it by hand to see what it prints");
            return Err(billed(failure(CallErrorKind::Garbled, text)));
        };
        let said = match &self.options.json {
            Some(fields) => json::read(&stdout, fields),
            None => Ok(plain(&stdout)),
        };
        if !status.success() || said.as_ref().is_ok_and(|said| said.is_error) {
            let words = self.for_people(said.as_ref().map_or(stdout.as_str(), |said| &said.text));
            return Err(self.failed(&format!("failed ({status})"), &words, &stderr));
        }
        let words = said.as_ref().map_or(stdout.as_str(), |said| &said.text).trim();
        // Some programs say that a limit is reached, and end well. A reply of a few words is read with that in mind;
        // what it says on standard error counts only where there is no reply.
        let message = if words.is_empty() { tail(&stderr, limit::LONGEST) } else { words };
        if message.chars().count() <= SHORT
            && !message.contains(['{', '`'])
            && let Some(error) = self.limited(&self.for_people(message))
        {
            return Err(error);
        }
        match said {
            Ok(said) if !words.is_empty() => Ok(said),
            Ok(_) => Err(self.failed("gave no reply", "", &stderr)),
            Err(why) => {
                let text =
                    format!("{program} gave no reply: {why}; check its arguments and the JSON fields in the registry");
                Err(billed(failure(CallErrorKind::Garbled, text)))
            }
        }
    }

    /// A limit if its words say so, else a failure of the program with its last words.
    fn failed(&self, what: &str, stdout: &str, stderr: &str) -> CallError {
        let words = [stderr, stdout].map(|text| tail(text, limit::LONGEST));
        if let Some(error) = words.iter().find_map(|words| self.limited(words)) {
            return error;
        }
        let last = words.iter().find(|words| !words.is_empty()).map_or("it said nothing", |words| tail(words, 600));
        let program = self.argv.first().map_or("", String::as_str);
        let text = format!("{program} {what}: {last}\nRun it by hand to see what it needs: a login, other arguments.");
        billed(failure(CallErrorKind::Command, text))
    }

    /// A program that tries again and again at a limit runs out of time.
    fn timed_out(&self, stderr: &str, what: &str, limit: Duration) -> CallError {
        self.limited(tail(stderr, limit::LONGEST)).unwrap_or_else(|| {
            let program = self.argv.first().map_or("", String::as_str);
            let text = format!(
                "{program} {what} for {} s and was stopped: run it by hand to see what it waits for, or allow more time",
                limit.as_secs_f64()
            );
            billed(failure(CallErrorKind::Timeout, text))
        })
    }

    fn limited(&self, words: &str) -> Option<CallError> {
        let Limit { lifted_in } = limit_text(words, &jiff::Zoned::now())?;
        let program = self.argv.first().map_or("", String::as_str);
        let until = lifted_in.map_or_else(
            || "until when is not said".to_owned(),
            |wait| format!("it is lifted in {} minutes", wait.as_secs().div_ceil(60)),
        );
        let text = format!(
            "{program} reports a limit of its account, {until}: {}\nWait, or use another model.",
            tail(words, 400)
        );
        Some(billed(failure(CallErrorKind::LimitReached { lifted_in }, text)))
    }

    /// Words of the program without terminal codes and without the values of the variables that were passed to it.
    fn for_people(&self, text: &str) -> String {
        let values = self.options.pass_env.iter().filter_map(|name| std::env::var(name).ok());
        without_values(without_codes(text), values)
    }
}

impl Model for Command {
    fn name(&self) -> &str {
        &self.name
    }

    fn ask(&self, request: &Request, watch: &dyn Watch) -> Result<Reply, CallError> {
        let started = Instant::now();
        if watch.cancelled() {
            return Err(cancelled("the call"));
        }
        let said = self.reply(self.run(&plain_text(request), watch)?)?;
        let mut notes = Vec::new();
        if !request.images.is_empty() {
            notes.push(format!("{} images were left out: a command takes text", request.images.len()));
        }
        let usage = said.usage.unwrap_or_else(|| {
            notes.push(ESTIMATED.into());
            estimated_usage(request, &said.text)
        });
        Ok(Reply {
            text: said.text,
            model: said.model.unwrap_or_else(|| self.name.clone()),
            stop: Stop::End,
            usage,
            cost_usd: said.cost_usd.or_else(|| self.options.price.and_then(|price| price.cost(&usage))),
            seconds: started.elapsed().as_secs_f64(),
            attempts: 1,
            notes,
        })
    }
}

fn plain(stdout: &str) -> json::Said {
    json::Said { text: stdout.trim_end().to_owned(), is_error: false, usage: None, cost_usd: None, model: None }
}

/// Once the program ran, its account may have been charged.
fn billed(error: CallError) -> CallError {
    CallError { may_be_billed: true, ..error }
}

fn prompt_file(prompt: &str) -> io::Result<File> {
    let mut file = tempfile::tempfile()?;
    file.write_all(prompt.as_bytes())?;
    file.rewind()?;
    Ok(file)
}

/// A path stays right when the program starts in another folder; a plain name is looked up in `PATH`.
fn in_any_folder(program: &str) -> OsString {
    if !program.contains('/') {
        return program.into();
    }
    std::path::absolute(Path::new(program)).map_or_else(|_| program.into(), Into::into)
}

fn is_passed(name: &OsStr, named: &[String]) -> bool {
    name.to_str().is_some_and(|name| {
        PASSED.contains(&name)
            || PASSED_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
            || named.iter().any(|other| other == name)
    })
}

/// Hides values that are long enough to be secrets, also where a program has trimmed them.
fn without_values(text: String, values: impl Iterator<Item = String>) -> String {
    values
        .map(|value| value.trim().to_owned())
        .filter(|value| value.len() >= 6)
        .fold(text, |text, value| text.replace(&value, "[hidden]"))
}

/// Drops escape sequences and other control characters, keeps lines and tabs.
fn without_codes(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            // `ESC [ ... letter`; other sequences are two characters long.
            '\u{1b}' => {
                if characters.next() == Some('[') {
                    let _ = characters.by_ref().find(|c| ('\u{40}'..='\u{7e}').contains(c));
                }
            }
            '\n' | '\t' => clean.push(character),
            '\r' => clean.push('\n'),
            other if other.is_control() => {}
            other => clean.push(other),
        }
    }
    clean
}
