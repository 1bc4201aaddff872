//! A cell's records, which hostile code may have written.

use super::{
    MAGIC, Nonce, OK, READY, RECORD,
    names::{MISSING, cell_failure},
    op::{Answer, Request},
};
use kforge_types::Kind;

const WORD_AT: usize = 40;

/// A record that answers what was asked, as far as its head tells.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    numbers: [u64; 3],
    word: String,
}

/// What it says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Word<A> {
    Good(A),
    Failed(Kind),
    /// A compiler of this name is not there.
    Missing(String),
    /// Numbers that this answer cannot have.
    Impossible,
    Unknown,
}

impl Reply {
    /// Nothing for what is no record, or not the answer to this request.
    pub(crate) fn to<R: Request>(record: &[u8], nonce: Nonce) -> Option<Self> {
        Self::read(record, R::OP as u32, nonce)
    }

    /// Whether this is the first record of a process.
    pub(crate) fn is_hello(record: &[u8]) -> bool {
        Self::read(record, 0, [0; 8]).is_some_and(|reply| reply.word == READY && reply.numbers == [0; 3])
    }

    fn read(record: &[u8], code: u32, nonce: Nonce) -> Option<Self> {
        let record: &[u8; RECORD] = record.try_into().ok()?;
        if record[..4] != MAGIC.to_le_bytes() || record[4..8] != code.to_le_bytes() || record[8..16] != nonce {
            return None;
        }
        let number = |place: usize| {
            let at = 16 + 8 * place;
            u64::from_le_bytes(record[at..at + 8].try_into().unwrap_or_default())
        };
        let word = &record[WORD_AT..];
        let end = word.iter().position(|&byte| byte == 0).unwrap_or(word.len());
        Some(Self {
            numbers: [number(0), number(1), number(2)],
            word: String::from_utf8_lossy(&word[..end]).into_owned(),
        })
    }

    pub(crate) fn word<A: Answer>(self) -> Word<A> {
        if self.word == OK {
            return A::read(self.numbers).map_or(Word::Impossible, Word::Good);
        }
        if let Some(tool) = self.word.strip_prefix(MISSING) {
            return Word::Missing(tool.to_owned());
        }
        cell_failure(&self.word).map_or(Word::Unknown, Word::Failed)
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{
            NULL_ROW,
            op::{self, Calls, Done, Look, Ran},
            request,
        },
        *,
    };

    const NONCE: Nonce = *b"whatever";

    fn record(code: u32, numbers: [u64; 3], word: &str) -> Vec<u8> {
        let mut record = [&MAGIC.to_le_bytes()[..], &code.to_le_bytes(), &NONCE].concat();
        record.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
        record.extend(word.as_bytes());
        record.resize(RECORD, 0);
        record
    }

    fn said<R: Request>(numbers: [u64; 3], word: &str) -> Word<R::Answer> {
        Reply::to::<R>(&record(R::OP as u32, numbers, word), NONCE).unwrap().word()
    }

    #[test]
    fn a_good_answer_has_its_numbers_by_name() {
        assert_eq!(said::<op::Row>([5, 6, 0], OK), Word::Good(Ran { inside_ns: 5, launching_ns: 6 }));
        assert_eq!(said::<op::Import>([0; 3], OK), Word::Good(Done {}));
    }

    #[test]
    fn what_is_no_answer_to_this_request_is_none() {
        let good = record(3, [5, 6, 0], OK);
        assert!(Reply::to::<op::Row>(&good, NONCE).is_some());
        let changed = |at: usize| {
            let mut record = good.clone();
            record[at] ^= 1;
            record
        };
        let long = [&good[..], b"x"].concat();
        let bad = [("magic", changed(0)), ("operation", changed(4)), ("nonce", changed(8)), ("long", long)];
        for (what, record) in &bad {
            assert!(Reply::to::<op::Row>(record, NONCE).is_none(), "{what}");
        }
        for length in 0..RECORD {
            assert!(Reply::to::<op::Row>(&good[..length], NONCE).is_none(), "{length} bytes");
        }
        assert!(Reply::to::<op::Queue>(&good, NONCE).is_none(), "an answer to something else");
        assert!(Reply::to::<op::Row>(&good, [0; 8]).is_none(), "an answer of before");
    }

    #[test]
    fn numbers_that_cannot_be_are_refused() {
        for numbers in [[u64::MAX, 0, 0], [0, u64::MAX, 0], [1 << 62, 1, 0], [0, 0, 1]] {
            assert_eq!(said::<op::Row>(numbers, OK), Word::Impossible, "{numbers:?}");
        }
        assert_eq!(said::<op::Construct>([0, 1 << 32, 0], OK), Word::Impossible);
        assert_eq!(said::<op::Audit>([1, 1 << 32, 1], OK), Word::Impossible);
        assert_eq!(said::<op::Import>([1, 0, 0], OK), Word::Impossible);
    }

    #[test]
    fn words_are_known_or_refused() {
        assert_eq!(said::<op::Row>([0; 3], "exception"), Word::Failed(Kind::Exception));
        assert_eq!(said::<op::Import>([0; 3], "missing:nvcc"), Word::Missing("nvcc".to_owned()));
        // Kinds that exist, and that no cell finds out.
        for word in ["", "OK", "ok ", "ready", "framework_only", "numeric", "clock", "floor", "guardrail", "x\u{fffd}"]
        {
            assert_eq!(said::<op::Row>([0; 3], word), Word::Unknown, "{word:?}");
        }
        let mut full = record(3, [0; 3], "");
        full[WORD_AT..].fill(0xFF);
        assert_eq!(Reply::to::<op::Row>(&full, NONCE).unwrap().word::<Ran>(), Word::Unknown);
    }

    #[test]
    fn only_the_first_record_says_hello() {
        let mut hello = record(0, [0; 3], READY);
        assert!(!Reply::is_hello(&hello), "it answers something");
        hello[8..16].fill(0);
        assert!(Reply::is_hello(&hello));
        assert!(!Reply::is_hello(&hello[..63]) && !Reply::is_hello(&[]));
        hello[WORD_AT + READY.len()] = b'!';
        assert!(!Reply::is_hello(&hello));
    }

    #[test]
    fn a_request_has_its_number() {
        let number = |record: [u8; RECORD]| u64::from_le_bytes(record[16..24].try_into().unwrap());
        let ready = request(op::Ready(Calls { count: 3, null: true }), NONCE);
        assert_eq!((ready[4], &ready[8..16], number(ready)), (op::Op::Ready as u8, &NONCE[..], 3 | NULL_ROW));
        assert_eq!(number(request(op::Ready(Calls { count: 3, null: false }), NONCE)), 3);
        assert_eq!(number(request(op::Inspect(Look::Sass), NONCE)), 5);
        assert_eq!(number(request(op::Pin(true), NONCE)), 1);
        assert_eq!(number(request(op::Import, NONCE)), 0);
    }
}
