//! Messages over one connection: a length, a header as JSON, then the files that the header lists.

use super::disk::{Content, MOST_FILE, MOST_FILES, MOST_TOTAL, is_path};
use serde::{Deserialize, Serialize};
use std::io::{self, Read, Write};

const MOST_HEADER: u32 = 1 << 20;

/// What is said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum Message {
    /// The first word of a worker: it is ready for jobs of this form.
    Hello { version: u32, kforge: String },
    /// To the worker: do this, if it is not done. The files are those of a job's folder.
    Job { id: String },
    /// From the worker: what is going on.
    Stage { text: String },
    /// From the worker: `out/result.json`.
    Result { id: String },
    /// From the worker: nothing more will come.
    Failed { text: String },
}

#[derive(Serialize, Deserialize)]
struct Header {
    message: Message,
    files: Vec<(String, u64)>,
}

pub(crate) fn send(out: &mut impl Write, message: &Message, files: &[Content]) -> io::Result<()> {
    let listed = files.iter().map(|file| (file.path.clone(), file.bytes.len() as u64)).collect();
    let header = serde_json::to_vec(&Header { message: message.clone(), files: listed })?;
    let length = u32::try_from(header.len()).map_err(|_| io::Error::other("a message is too long"))?;
    out.write_all(&length.to_be_bytes())?;
    out.write_all(&header)?;
    for file in files {
        out.write_all(&file.bytes)?;
    }
    out.flush()
}

/// The next message; nothing at the end of the stream between two messages.
pub(crate) fn receive(from: &mut impl Read) -> io::Result<Option<(Message, Vec<Content>)>> {
    let mut length = [0; 4];
    match from.read(&mut length[..1])? {
        0 => return Ok(None),
        _ => from.read_exact(&mut length[1..])?,
    }
    let length = u32::from_be_bytes(length);
    if length > MOST_HEADER {
        return Err(io::Error::other("this is no message of kforge"));
    }
    let mut header = vec![0; length as usize];
    from.read_exact(&mut header)?;
    let header: Header = serde_json::from_slice(&header)?;
    let sane = header.files.iter().all(|(path, bytes)| is_path(path) && *bytes <= MOST_FILE);
    if !sane
        || header.files.len() > MOST_FILES + 1
        || header.files.iter().map(|(_, bytes)| bytes).sum::<u64>() > MOST_TOTAL
    {
        return Err(io::Error::other("a message lists files that are not allowed"));
    }
    let mut files = Vec::new();
    for (path, bytes) in header.files {
        // Not allocated before it comes: a length costs nothing to claim.
        let mut content = Vec::new();
        if from.take(bytes).read_to_end(&mut content)? as u64 != bytes {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        files.push(Content::new(path, content));
    }
    Ok(Some((header.message, files)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_sent_is_received() {
        let files = [Content::new("problem.py", "x"), Content::new("aux/a.py", vec![0u8; 1000])];
        let mut bytes = Vec::new();
        send(&mut bytes, &Message::Job { id: "a".to_owned() }, &files).unwrap();
        send(&mut bytes, &Message::Stage { text: "x".to_owned() }, &[]).unwrap();
        let mut reader = bytes.as_slice();
        assert_eq!(receive(&mut reader).unwrap().unwrap(), (Message::Job { id: "a".to_owned() }, files.to_vec()));
        assert_eq!(receive(&mut reader).unwrap().unwrap().0, Message::Stage { text: "x".to_owned() });
        assert!(receive(&mut reader).unwrap().is_none());
        let mut first = Vec::new();
        send(&mut first, &Message::Job { id: "a".to_owned() }, &files).unwrap();
        for end in 1..first.len() {
            assert!(receive(&mut &first[..end]).is_err(), "{end}");
        }
    }

    #[test]
    fn paths_that_lead_out_are_refused() {
        for path in ["../x", "/etc/passwd", "a/../b", ".hidden", ""] {
            let mut bytes = Vec::new();
            send(&mut bytes, &Message::Job { id: String::new() }, &[Content::new(path, "x")]).unwrap();
            assert!(receive(&mut bytes.as_slice()).is_err(), "{path}");
        }
    }

    proptest! {
        #[test]
        fn garbage_is_an_error_or_nothing(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = receive(&mut bytes.as_slice());
        }
    }
}
