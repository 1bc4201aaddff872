//! Server-sent events, read from bytes as they come: any chunking, any line ends, comments, data over several lines.
//!
//! Sizes are bounded, because the server is not ours. What the events mean is the wire formats' business.

/// No event may be larger than this; the largest real ones repeat a whole reply.
pub(crate) const LARGEST_EVENT: usize = 16 << 20;

/// One event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Event {
    /// The `event:` field; empty where the server gave none.
    pub name: String,
    /// The `data:` lines, joined by line feeds.
    pub data: String,
}

/// An event or a line grew beyond [`LARGEST_EVENT`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooLarge;

/// Keeps what is not complete yet.
#[derive(Debug, Default)]
pub(crate) struct Parser {
    line: Vec<u8>,
    name: String,
    data: Vec<u8>,
    has_data: bool,
    /// The last byte was a carriage return: a line feed right after it belongs to the same line end.
    after_return: bool,
    /// A byte order mark is skipped before the first line only.
    begun: bool,
}

impl Parser {
    /// Takes the next bytes and gives the events that they complete.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<Vec<Event>, TooLarge> {
        let mut events = Vec::new();
        for piece in bytes.split_inclusive(|byte| matches!(byte, b'\n' | b'\r')) {
            let (text, end) = match piece {
                [text @ .., end @ (b'\n' | b'\r')] => (text, Some(*end)),
                text => (text, None),
            };
            let second_half = end == Some(b'\n') && text.is_empty() && self.after_return;
            self.after_return = end == Some(b'\r');
            if second_half {
                continue;
            }
            if self.line.len() + text.len() > LARGEST_EVENT {
                return Err(TooLarge);
            }
            self.line.extend_from_slice(text);
            if end.is_some() {
                events.extend(self.end_line()?);
            }
        }
        Ok(events)
    }

    /// The stream has ended. Some servers leave out the last empty line, so what is there counts as an event.
    pub(crate) fn finish(mut self) -> Result<Vec<Event>, TooLarge> {
        let mut events = Vec::new();
        if !self.line.is_empty() {
            events.extend(self.end_line()?);
        }
        events.extend(self.dispatch());
        Ok(events)
    }

    fn end_line(&mut self) -> Result<Option<Event>, TooLarge> {
        let line = std::mem::take(&mut self.line);
        let mut line = line.as_slice();
        if !std::mem::replace(&mut self.begun, true) {
            line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
        }
        if line.is_empty() {
            return Ok(self.dispatch());
        }
        let (field, value) = match line.iter().position(|&byte| byte == b':') {
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (line, &line[line.len()..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"data" => {
                if self.data.len() + value.len() >= LARGEST_EVENT {
                    return Err(TooLarge);
                }
                if std::mem::replace(&mut self.has_data, true) {
                    self.data.push(b'\n');
                }
                self.data.extend_from_slice(value);
            }
            b"event" => self.name = String::from_utf8_lossy(value).into_owned(),
            // Comments keep the connection open; ids and retry times are for browsers.
            _ => {}
        }
        Ok(None)
    }

    fn dispatch(&mut self) -> Option<Event> {
        let name = std::mem::take(&mut self.name);
        let data = std::mem::take(&mut self.data);
        std::mem::take(&mut self.has_data).then(|| Event { name, data: String::from_utf8_lossy(&data).into_owned() })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all(pieces: &[&[u8]]) -> Vec<Event> {
        let mut parser = Parser::default();
        let mut events = Vec::new();
        for piece in pieces {
            events.extend(parser.push(piece).unwrap());
        }
        events.extend(parser.finish().unwrap());
        events
    }

    fn event(name: &str, data: &str) -> Event {
        Event { name: name.into(), data: data.into() }
    }

    #[test]
    fn fields_comments_and_several_lines() {
        let text = b"\xef\xbb\xbf: keep-alive\n\nevent: ping\ndata: one\ndata:two\nid: 7\n\ndata\n\nevent: nothing\n\ndata: last";
        assert_eq!(all(&[text]), [event("ping", "one\ntwo"), event("", ""), event("", "last")]);
    }

    #[test]
    fn line_ends_of_all_kinds() {
        assert_eq!(all(&[b"data: a\r\n\r\ndata: b\r\rdata: c\n\n"]), [event("", "a"), event("", "b"), event("", "c")]);
        assert_eq!(all(&[b"data: a\r", b"\n\r", b"\ndata: b\r\n\r\n"]), [event("", "a"), event("", "b")]);
    }

    #[test]
    fn characters_may_be_cut_anywhere() {
        let text = "data: grüße\n\n".as_bytes();
        let middle = 9;
        assert_eq!(all(&[&text[..middle], &text[middle..]]), [event("", "grüße")]);
    }

    #[test]
    fn sizes_are_bounded() {
        let mut parser = Parser::default();
        let block = vec![b'x'; 1 << 20];
        let mut outcome = Ok(Vec::new());
        for _ in 0..20 {
            outcome = parser.push(&block);
            if outcome.is_err() {
                break;
            }
        }
        assert_eq!(outcome, Err(TooLarge));
        let mut parser = Parser::default();
        let mut line = b"data: ".to_vec();
        line.extend(vec![b'x'; 1 << 20]);
        line.push(b'\n');
        assert!((0..20).any(|_| parser.push(&line).is_err()));
    }

    proptest! {
        #[test]
        fn chunking_does_not_matter(
            lines in proptest::collection::vec("(data|event|id|)(: ?)?[a-zé:]{0,6}", 0..20),
            ends in proptest::collection::vec(prop_oneof![Just("\n"), Just("\r\n"), Just("\r"), Just("\n\n"), Just("\r\n\r\n")], 20),
            cuts in proptest::collection::vec(0usize..400, 0..12),
        ) {
            let text: String = lines.iter().zip(&ends).flat_map(|(line, end)| [line.as_str(), *end]).collect();
            let bytes = text.as_bytes();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
            let single: Vec<&[u8]> = bytes.chunks(1).collect();
            prop_assert_eq!(all(&pieces), all(&[bytes]));
            prop_assert_eq!(all(&single), all(&[bytes]));
        }
    }
}
