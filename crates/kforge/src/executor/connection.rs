//! One connection to a worker: a process of the system's ssh, and a thread that reads what comes.

use super::bootstrap;
use crate::{
    environment,
    job::{
        Content, VERSION,
        frame::{self, Message},
    },
};
use anyhow::{Context, bail};
use std::{
    ffi::OsString,
    io::{IsTerminal, Read},
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc,
};

/// Whom to reach, and what to start there.
#[derive(Debug, Clone)]
pub(crate) struct Destination {
    pub(crate) host: String,
    pub(crate) program: Option<String>,
    /// Words for the worker there.
    pub(crate) words: Vec<String>,
}

/// What comes over a connection.
pub(super) enum Event {
    Message(Message, Vec<Content>),
    /// Nothing more.
    Lost(String),
}

pub(super) struct Connection {
    child: Child,
    input: ChildStdin,
    pub(super) events: mpsc::Receiver<Event>,
}

impl Connection {
    pub(super) fn open(to: &Destination, said: &dyn Fn(&str)) -> anyhow::Result<Self> {
        let own = own_program().context("cannot read the program of this kforge")?;
        let hash = crate::job::sha256(&own);
        said(&format!("connecting to {}", to.host));
        let mut child = ssh()
            .args(["-o", "ServerAliveInterval=15", "-o", "ServerAliveCountMax=3", "-o", "ConnectTimeout=20", "-T"])
            // Somebody must be there to be asked for a password.
            .args(if std::io::stderr().is_terminal() { [].as_slice() } else { &["-o", "BatchMode=yes"] })
            .arg("--")
            .arg(&to.host)
            .arg(bootstrap::command(to.program.as_deref(), &hash, &to.words))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start ssh: install it, or name another program in KFORGE_SSH")?;
        let (Some(mut input), Some(mut output)) = (child.stdin.take(), child.stdout.take()) else {
            bail!("ssh has no pipes");
        };
        bootstrap::introduce(&mut output, &mut input, &to.host, &|| Ok(own.clone()), said).inspect_err(|_| {
            let _ = child.kill();
            let _ = child.wait();
        })?;
        let connection = Self { child, input, events: listen(output) };
        connection.greet(to)
    }

    fn greet(self, to: &Destination) -> anyhow::Result<Self> {
        let host = &to.host;
        match self.events.recv() {
            Ok(Event::Message(Message::Hello { version: VERSION, .. }, _)) => Ok(self),
            Ok(Event::Message(Message::Hello { version, kforge }, _)) => bail!(
                "the kforge on {host} ({kforge}) takes jobs of form {version}, this one ({}) makes form {VERSION}: use the same version on both",
                env!("CARGO_PKG_VERSION")
            ),
            Ok(Event::Message(Message::Failed { text }, _)) => bail!("the worker on {host} failed: {text}"),
            _ => bail!(
                "the worker on {host} did not start: see its words above; where this program does not run there, install kforge and name it, --executor ssh:{host}:/path/to/kforge"
            ),
        }
    }

    pub(super) fn send(&mut self, message: &Message, files: &[Content]) -> std::io::Result<()> {
        frame::send(&mut self.input, message, files)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // The worker there finishes what it has at hand.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn listen(mut output: impl Read + Send + 'static) -> mpsc::Receiver<Event> {
    let (events, received) = mpsc::channel();
    std::thread::spawn(move || {
        loop {
            let event = match frame::receive(&mut output) {
                Ok(Some((message, files))) => Event::Message(message, files),
                Ok(None) => Event::Lost("the connection ended".to_owned()),
                Err(error) => Event::Lost(format!("the connection broke: {error}")),
            };
            let over = matches!(event, Event::Lost(_));
            if events.send(event).is_err() || over {
                return;
            }
        }
    });
    received
}

/// `ssh`, or what `KFORGE_SSH` says: a program and its arguments, set apart by blanks.
fn ssh() -> Command {
    let named = environment::SSH.value().unwrap_or_else(|| OsString::from(environment::SSH.default));
    let text = named.to_string_lossy().into_owned();
    let mut words = text.split_whitespace();
    let mut command = Command::new(words.next().unwrap_or("ssh"));
    command.args(words);
    command
}

/// Also where the file was replaced since this process began.
fn own_program() -> std::io::Result<Vec<u8>> {
    std::fs::read("/proc/self/exe").or_else(|_| std::fs::read(std::env::current_exe()?))
}
