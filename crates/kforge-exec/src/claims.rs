//! Where a cell says that its results lie. It is held to nothing but this: what is found there must be right.

use crate::error::{ExecError, Result};
use kforge_types::{Kind, Verdict};
use serde_json::{Map, Value};

/// One output as the problem has it: what is read is taken for this, whatever a cell returned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OutputField {
    pub(crate) shape: Vec<u64>,
    /// Bytes of one element.
    pub(crate) item: usize,
    pub(crate) offset: usize,
    pub(crate) nbytes: usize,
    /// Whether the reference's own elements share memory.
    pub(crate) shares: bool,
}

/// Of one variant, in the order of their regions.
pub(crate) fn output_fields(variant: &Map<String, Value>) -> Result<Vec<OutputField>> {
    let wrong = || ExecError::harness("the referee described an output that cannot be understood");
    let fields = variant.get("outputs").and_then(Value::as_array).ok_or_else(wrong)?;
    let shared = variant.get("shared_outputs").and_then(Value::as_array);
    let number = |value: &Value| value.as_u64().ok_or_else(wrong);
    let one = |(index, field): (usize, &Value)| -> Result<OutputField> {
        let shape: Vec<u64> = field["shape"].as_array().ok_or_else(wrong)?.iter().map(number).collect::<Result<_>>()?;
        let nbytes = number(&field["nbytes"])? as usize;
        let elements = shape.iter().product::<u64>() as usize;
        Ok(OutputField {
            shape,
            item: nbytes.checked_div(elements).unwrap_or(1).max(1),
            offset: number(&field["offset"])? as usize,
            nbytes,
            shares: shared.and_then(|s| s.get(index)).and_then(Value::as_bool).unwrap_or_default(),
        })
    };
    fields.iter().enumerate().map(one).collect()
}

/// One tensor.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub(crate) struct Claim {
    /// On a device: which piece of memory that was handed over. 0 is the region that results are copied to.
    pub(crate) segment: u64,
    /// In that piece, or an address in the cell's process.
    pub(crate) at: u64,
    /// In elements.
    pub(crate) strides: Vec<i64>,
}

impl Claim {
    /// First byte and length of the memory that it reaches; nothing for strides that go backwards or too far.
    pub(crate) fn span(&self, field: &OutputField) -> Option<(u64, u64)> {
        let mut last: u64 = 0;
        for (size, stride) in field.shape.iter().zip(&self.strides) {
            let stride = u64::try_from(*stride).ok()?;
            last = last.checked_add(size.checked_sub(1)?.checked_mul(stride)?)?;
        }
        let bytes = last.checked_add(1)?.checked_mul(field.item as u64)?;
        self.at.checked_add(bytes)?;
        Some((self.at, bytes))
    }

    /// Whether some element is reached by two indices.
    fn overlaps_itself(&self, field: &OutputField) -> bool {
        let mut dimensions: Vec<(u64, u64)> = field
            .shape
            .iter()
            .zip(&self.strides)
            .filter(|(size, _)| **size > 1)
            .map(|(size, stride)| (u64::try_from(*stride).unwrap_or_default(), *size))
            .collect();
        dimensions.sort_unstable();
        let mut reach = 1_u64;
        dimensions.into_iter().any(|(stride, size)| {
            let within = stride < reach;
            reach = reach.saturating_add((size - 1).saturating_mul(stride));
            within
        })
    }

    /// Whether both reach the same memory.
    pub(crate) fn meets(&self, field: &OutputField, other: &Self, other_field: &OutputField) -> bool {
        if field.nbytes == 0 || other_field.nbytes == 0 {
            return false;
        }
        let (Some((a, long)), Some((b, wide))) = (self.span(field), other.span(other_field)) else { return true };
        self.segment == other.segment && a < b + wide && b < a + long
    }
}

/// The claims of a row, call by call, and the sizes of pieces of memory that were handed over with them.
pub(crate) struct Claims {
    pub(crate) calls: Vec<Vec<Claim>>,
    pub(crate) new_segments: Vec<u64>,
}

/// Reads what a cell wrote: anything may stand there.
pub(crate) fn read(bytes: &[u8], fields: &[OutputField], calls: usize, handed_over: usize) -> Option<Claims> {
    let mut words = bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap_or_default()));
    let mut all = Vec::with_capacity(calls);
    for _ in 0..calls {
        let mut of_call = Vec::with_capacity(fields.len());
        for field in fields {
            let (segment, at) = (words.next()?, words.next()?);
            let strides = field.shape.iter().map(|_| words.next().map(u64::cast_signed)).collect::<Option<_>>()?;
            of_call.push(Claim { segment, at, strides });
        }
        all.push(of_call);
    }
    let new_segments = (0..handed_over).map(|_| words.next()).collect::<Option<_>>()?;
    Some(Claims { calls: all, new_segments })
}

/// What can be said of claims without looking at the memory behind them.
pub(crate) fn objection(claims: &Claims, fields: &[OutputField]) -> Option<Verdict> {
    for (claim, field) in claims.calls.iter().flat_map(|call| call.iter().zip(fields)) {
        if field.nbytes == 0 {
            continue;
        }
        let text = if claim.span(field).is_none() {
            "its strides cannot be followed"
        } else if claim.overlaps_itself(field) && !field.shares {
            "its strides make elements share memory; return a dense tensor"
        } else {
            continue;
        };
        return Some(Verdict::of(Kind::Strides, format!("an output cannot be taken: {text}")));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(shape: &[u64]) -> OutputField {
        let nbytes = 4 * shape.iter().product::<u64>() as usize;
        OutputField { shape: shape.to_vec(), item: 4, offset: 0, nbytes, shares: false }
    }

    fn claim(at: u64, strides: &[i64]) -> Claim {
        Claim { segment: 1, at, strides: strides.to_vec() }
    }

    #[test]
    fn strides_that_reach_an_element_twice_are_seen() {
        let square = field(&[8, 8]);
        assert!(!claim(0, &[8, 1]).overlaps_itself(&square));
        assert!(!claim(0, &[1, 8]).overlaps_itself(&square));
        assert!(!claim(0, &[20, 1]).overlaps_itself(&square));
        assert!(claim(0, &[4, 1]).overlaps_itself(&square));
        assert!(claim(0, &[0, 1]).overlaps_itself(&square));
        assert!(claim(0, &[1, 1]).overlaps_itself(&square));
        assert!(!claim(0, &[0, 1]).overlaps_itself(&field(&[1, 8])));
    }

    #[test]
    fn numbers_that_make_no_sense_are_refused_and_nothing_overflows() {
        let square = field(&[8, 8]);
        for strides in [[-8, 1], [i64::MAX, 1], [i64::MAX, i64::MAX]] {
            assert_eq!(claim(0, &strides).span(&square), None, "{strides:?}");
        }
        assert_eq!(claim(u64::MAX - 8, &[8, 1]).span(&square), None);
        assert!(read(&[0; 16], &[square], 1, 0).is_none());
    }

    #[test]
    fn what_a_cell_wrote_is_read_call_by_call_with_what_it_handed_over() {
        let words: [u64; 10] = [1, 4096, 8, 1, 2, 64, u64::MAX, 1, 12288, 99];
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let read = read(&bytes, &[field(&[8, 8])], 2, 1).unwrap();
        assert_eq!(read.calls[0], [Claim { segment: 1, at: 4096, strides: vec![8, 1] }]);
        assert_eq!(read.calls[1], [Claim { segment: 2, at: 64, strides: vec![-1, 1] }]);
        assert_eq!(read.new_segments, [12288]);
        assert!(super::read(&bytes, &[field(&[8, 8])], 2, 3).is_none(), "more was handed over than is told");
    }

    #[test]
    fn strides_that_cannot_be_are_told_and_shared_elements_where_the_reference_has_none() {
        let kind = |claim: Claim, field: OutputField| {
            let claims = Claims { calls: vec![vec![claim]], new_segments: Vec::new() };
            objection(&claims, &[field]).map(|verdict| verdict.kind)
        };
        let square = field(&[8, 8]);
        assert_eq!(kind(claim(0, &[8, 1]), square.clone()), None);
        assert_eq!(kind(claim(0, &[-8, 1]), square.clone()), Some(Some(Kind::Strides)));
        assert_eq!(kind(claim(0, &[0, 1]), square.clone()), Some(Some(Kind::Strides)));
        assert_eq!(kind(claim(0, &[0, 1]), OutputField { shares: true, ..square }), None);
        assert_eq!(kind(claim(0, &[-1, 0]), field(&[0, 8])), None, "nothing is nowhere");
    }

    #[test]
    fn the_problem_says_how_outputs_are_read() {
        let variant = serde_json::json!({
            "outputs": [
                {"dtype": "float64", "shape": [2, 3], "stride": [3, 1], "offset": 0, "nbytes": 48},
                {"dtype": "float32", "shape": [0], "stride": [1], "offset": 256, "nbytes": 0},
            ],
            "shared_outputs": [true],
        });
        let fields = output_fields(variant.as_object().unwrap()).unwrap();
        assert_eq!(fields[0], OutputField { shape: vec![2, 3], item: 8, offset: 0, nbytes: 48, shares: true });
        assert_eq!(fields[1], OutputField { shape: vec![0], item: 1, offset: 256, nbytes: 0, shares: false });
        assert!(output_fields(serde_json::json!({"outputs": [{"shape": "x"}]}).as_object().unwrap()).is_err());
    }

    #[test]
    fn results_that_reach_the_same_memory_are_seen() {
        let row = field(&[8]);
        assert!(claim(64, &[1]).meets(&row, &claim(80, &[1]), &row));
        assert!(!claim(64, &[1]).meets(&row, &claim(96, &[1]), &row));
        let nothing = field(&[0]);
        assert!(!claim(64, &[1]).meets(&nothing, &claim(64, &[1]), &nothing));
    }
}
