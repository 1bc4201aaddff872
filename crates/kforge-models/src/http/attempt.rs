//! One attempt: send, listen, and stop listening for one of five reasons.

use std::sync::mpsc::RecvTimeoutError;
use std::time::Instant;

use reqwest::header::{HeaderName, HeaderValue};

use super::exchange::{self, Exchange, Happening};
use super::{HttpModel, LOOK};
use crate::fault::{self, Fault};
use crate::key::Key;
use crate::support::setup;
use crate::wire::{self, Decoder, Outgoing, Partial};
use crate::{CallError, CallErrorKind, Watch};

/// So much of an error's body is read.
const LARGEST_ERROR: usize = 64 << 10;

/// The status line's news, once it has come.
struct Head {
    status: u16,
    retry_after: Option<String>,
    location: Option<String>,
}

impl HttpModel {
    /// What came, and whether it is complete. `Err` of the outer kind: nothing was sent.
    pub(super) fn attempt(
        &self,
        outgoing: &Outgoing,
        body: &[u8],
        key: Option<&Key>,
        watch: &dyn Watch,
    ) -> Result<(Partial, Result<(), Fault>), CallError> {
        let exchange = exchange::start(&self.client, self.request(outgoing, body, key)?)?;
        let mut decoder = Decoder::new(self.entry.wire);
        let outcome = self.listen(&exchange, &mut decoder, watch);
        // After the end of the reply it does not matter that the connection breaks, or stays open.
        let complete = decoder.complete();
        let outcome = match outcome {
            Err(fault) if complete && matches!(fault.kind, CallErrorKind::Cut | CallErrorKind::Timeout) => Ok(()),
            other => other,
        };
        Ok((decoder.into_partial(), outcome))
    }

    fn listen(&self, exchange: &Exchange, decoder: &mut Decoder, watch: &dyn Watch) -> Result<(), Fault> {
        let started = Instant::now();
        let mut last_byte = started;
        let mut head: Option<Head> = None;
        let mut error_body = Vec::new();
        loop {
            if watch.cancelled() {
                return Err(Fault::lasting(CallErrorKind::Cancelled, "the call was ended before its reply").billed());
            }
            let happening = match exchange.events.recv_timeout(LOOK) {
                Ok(happening) => happening,
                Err(RecvTimeoutError::Timeout) => {
                    self.in_time(started, last_byte)?;
                    continue;
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Fault::passing(CallErrorKind::Cut, "the connection was lost").billed());
                }
            };
            last_byte = Instant::now();
            // A server that sends one byte at a time never pauses, so the clock is looked at here as well.
            self.in_time(started, last_byte)?;
            let success = head.as_ref().is_some_and(|head| (200..300).contains(&head.status));
            match happening {
                Happening::Head { status, retry_after, location } => {
                    head = Some(Head { status, retry_after, location });
                }
                Happening::Bytes(bytes) if success => {
                    decoder.push(&bytes)?;
                    watch.received(decoder.partial.characters);
                    if decoder.partial.done {
                        return Ok(());
                    }
                }
                Happening::Bytes(bytes) => {
                    error_body.extend(bytes.iter().take(LARGEST_ERROR - error_body.len()));
                    if error_body.len() >= LARGEST_ERROR {
                        return Err(refused(head.as_ref(), &error_body));
                    }
                }
                Happening::End if success => {
                    let outcome = decoder.finish();
                    watch.received(decoder.partial.characters);
                    return outcome;
                }
                Happening::Failed(fault) if success || head.is_none() => return Err(fault),
                // Half an error is still one.
                Happening::End | Happening::Failed(_) => return Err(refused(head.as_ref(), &error_body)),
            }
        }
    }

    fn in_time(&self, started: Instant, last_byte: Instant) -> Result<(), Fault> {
        let patience = &self.patience;
        let fault = |text| Err(Fault::lasting(CallErrorKind::Timeout, text).billed());
        if last_byte.elapsed() > patience.idle {
            return fault(format!("no byte for {:.1} s", patience.idle.as_secs_f64()));
        }
        if started.elapsed() > patience.overall {
            return fault(format!("no complete reply within {:.1} s", patience.overall.as_secs_f64()));
        }
        Ok(())
    }

    fn request(&self, outgoing: &Outgoing, body: &[u8], key: Option<&Key>) -> Result<reqwest::Request, CallError> {
        let unfit = |what: &str| setup(format!("{}: {what} cannot be sent; mend it in the registry", self.name));
        let address = format!("{}/{}", self.entry.base_url.trim_end_matches('/'), outgoing.path);
        let url = address.parse().map_err(|_| unfit("base_url with the model's name"))?;
        let mut request = reqwest::Request::new(reqwest::Method::POST, url);
        let headers = request.headers_mut();
        let fixed = [
            ("content-type", "application/json".to_owned()),
            ("accept", "text/event-stream, application/json".to_owned()),
        ];
        let own = self.entry.headers.iter().map(|(name, value)| (name.as_str(), value.clone()));
        for (name, value) in fixed.into_iter().chain(outgoing.headers.iter().cloned()).chain(own) {
            let value = HeaderValue::from_str(&value).map_err(|_| unfit(&format!("the header {name}")))?;
            let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| unfit(&format!("the header {name}")))?;
            headers.insert(name, value);
        }
        if let Some(key) = key {
            let (name, before) = wire::key_header(&self.entry);
            let mut value =
                HeaderValue::from_str(&format!("{before}{}", key.expose())).map_err(|_| unfit("the key"))?;
            value.set_sensitive(true);
            headers.insert(HeaderName::from_bytes(name.as_bytes()).map_err(|_| unfit("key_header"))?, value);
        }
        *request.body_mut() = Some(body.to_vec().into());
        Ok(request)
    }
}

fn refused(head: Option<&Head>, body: &[u8]) -> Fault {
    let Some(head) = head else { return Fault::passing(CallErrorKind::Cut, "the connection was lost").billed() };
    if let (300..400, Some(location)) = (head.status, &head.location) {
        let to = fault::bounded(location, 200);
        let text = format!("the server redirects to {to}, which is not followed because the key is for one host");
        return Fault::lasting(CallErrorKind::Rejected, text);
    }
    let retry_after = head.retry_after.as_deref().and_then(|header| fault::retry_after(header, jiff::Timestamp::now()));
    fault::of_status(head.status, body, retry_after)
}
