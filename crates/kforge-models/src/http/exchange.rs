//! One request on the network. The connection lives on a runtime of this crate; what happens on it arrives at the caller's
//! thread as messages, so that the caller can look at its watcher between any two of them, inside or outside another runtime.

use std::error::Error as _;
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use reqwest::{Client, Request, Response, redirect};
use tokio::runtime::{Builder, Runtime};
use tokio::task::AbortHandle;

use crate::fault::Fault;
use crate::support::setup;
use crate::{CallError, CallErrorKind};

/// No body may be larger. Events repeat names and ids for every word, so this is far above the limit on text.
pub(super) const LARGEST_BODY: usize = 128 << 20;

/// What happened next.
#[derive(Debug)]
pub(super) enum Happening {
    /// Status and headers have come.
    Head { status: u16, retry_after: Option<String>, location: Option<String> },
    /// Some of the body.
    Bytes(Vec<u8>),
    /// The body has ended as it should.
    End,
    /// The connection failed.
    Failed(Fault),
}

/// A request on its way; dropping it closes the connection.
pub(super) struct Exchange {
    pub events: Receiver<Happening>,
    task: AbortHandle,
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn runtime() -> Result<&'static Runtime, CallError> {
    static RUNTIME: OnceLock<Result<Runtime, String>> = OnceLock::new();
    let build = || Builder::new_multi_thread().worker_threads(1).thread_name("kforge-http").enable_all().build();
    RUNTIME.get_or_init(|| build().map_err(|error| error.to_string())).as_ref().map_err(|error| {
        setup(format!("cannot start the network thread ({error}); look at the limits on processes and open files"))
    })
}

/// A client for one server.
pub(super) fn client(connect: Duration, loopback: bool) -> Result<Client, CallError> {
    // The program may have installed a provider of its own; any will do.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let builder = Client::builder()
        .connect_timeout(connect)
        // A redirect would carry the prompt, and with some headers the key, to a host that nobody named.
        .redirect(redirect::Policy::none())
        .user_agent(concat!("kforge/", env!("CARGO_PKG_VERSION")));
    // A proxy of the environment cannot reach this machine's own loopback.
    let builder = if loopback { builder.no_proxy() } else { builder };
    let _guard = runtime()?.enter();
    builder.build().map_err(|error| {
        setup(format!("cannot set up TLS ({}); are the system's certificates installed?", causes(&error)))
    })
}

/// Sends the request.
pub(super) fn start(client: &Client, request: Request) -> Result<Exchange, CallError> {
    let (sender, events) = channel();
    let response = client.execute(request);
    let task = runtime()?.spawn(async move {
        let last = match response.await {
            Ok(response) => read(response, &sender).await,
            Err(error) => Happening::Failed(fault(error, false)),
        };
        let _ = sender.send(last);
    });
    Ok(Exchange { events, task: task.abort_handle() })
}

async fn read(mut response: Response, sender: &Sender<Happening>) -> Happening {
    let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    // litellm's proxy hands its provider's headers on under other names.
    let retry_after = header("retry-after").or_else(|| header("llm_provider-retry-after"));
    let head = Happening::Head { status: response.status().as_u16(), retry_after, location: header("location") };
    if sender.send(head).is_err() {
        return Happening::End;
    }
    let mut total = 0;
    loop {
        match response.chunk().await {
            Ok(Some(bytes)) => {
                total += bytes.len();
                if total > LARGEST_BODY {
                    let text = "the server sent more than 128 MiB";
                    return Happening::Failed(Fault::lasting(CallErrorKind::Garbled, text).billed());
                }
                if sender.send(Happening::Bytes(bytes.to_vec())).is_err() {
                    return Happening::End;
                }
            }
            Ok(None) => return Happening::End,
            Err(error) => return Happening::Failed(fault(error, true)),
        }
    }
}

/// The causes of an error, without the address, which the caller adds where it is harmless.
fn causes(error: &reqwest::Error) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        if parts.last().is_none_or(|last| !last.contains(&text)) {
            parts.push(text);
        }
        cause = error.source();
    }
    if parts.is_empty() { "no cause given".into() } else { crate::fault::bounded(&parts.join(": "), 300) }
}

fn fault(error: reqwest::Error, begun: bool) -> Fault {
    let error = error.without_url();
    let causes = causes(&error);
    if error.is_builder() {
        Fault::lasting(CallErrorKind::Setup, format!("the request cannot be built: {causes}"))
    } else if error.is_connect() {
        let certificate = causes.contains("certificate") || causes.contains("Certificate");
        let text = format!("no connection: {causes}");
        if certificate {
            Fault::lasting(CallErrorKind::Unreachable, text)
        } else {
            Fault::passing(CallErrorKind::Unreachable, text)
        }
    } else if causes.contains("invalid HTTP") {
        let text = format!("what listens there does not speak HTTP ({causes}); is it https:// instead of http://?");
        Fault::lasting(CallErrorKind::Garbled, text)
    } else {
        let place = if begun { "in the middle of the reply" } else { "before the reply began" };
        Fault::passing(CallErrorKind::Cut, format!("the connection broke {place}: {causes}")).billed()
    }
}
