//! From what went wrong to the line of the user's own file.
//!
//! In its sandbox every candidate is `candidate.py`, and its native source is in a string. A compiler knows the file that
//! the string was written to. It shows the line that it complains about, and that line is looked for in the candidate:
//! nothing is said where it is not found, or cannot be told from others.

use kforge_types::{EvalResult, Kind, State};

/// What a candidate is called in its sandbox, and the file that an attempt of a run is kept in.
const INSIDE: &str = "candidate.py";

/// Puts the user's file and the line in it into the reason why a candidate is not correct.
pub(super) fn point_at(result: &mut EvalResult, source: &str) {
    let name = if result.candidate_file.contains(".py") { &result.candidate_file } else { INSIDE };
    if let (State::CompilationFailure, Some((line, text))) = (result.state, origin(&result.reason, source)) {
        result.reason = format!("{}\n  at {name}:{line}: {text}", result.reason.trim_end());
    } else if matches!(result.kind, Some(Kind::Syntax | Kind::Guardrail)) {
        result.reason = result.reason.replacen(" at line ", &format!(" at {name}:"), 1);
    } else {
        let inside = format!("\n  at {INSIDE}:");
        result.reason = result.reason.replacen(&inside, &format!("\n  at {name}:"), 1);
    }
}

/// The line in the candidate, from 1, and what stands there.
fn origin<'a>(reason: &str, source: &'a str) -> Option<(usize, &'a str)> {
    let mut told = reason.lines();
    let number = number(told.next()?)?;
    let shown = told.next()?;
    // gcc and clang: `   12 |     code`; nvcc: the code, indented.
    let shown =
        shown.split_once('|').filter(|(n, _)| n.trim().parse::<usize>().is_ok()).map_or(shown, |(_, code)| code);
    let shown = shown.trim();
    if shown.is_empty() {
        return None;
    }
    let lines: Vec<&str> = source.lines().collect();
    let same: Vec<usize> = (0..lines.len()).filter(|at| lines[*at].trim() == shown).collect();
    let found = match same.as_slice() {
        [only] => *only,
        // The native source's first line is the one with the quotes, or the one after it where the text was stripped.
        several => [number.checked_sub(1)?, number].into_iter().find_map(|back| {
            let quotes = |at: usize| lines.get(at).is_some_and(|line| line.contains("\"\"\"") || line.contains("'''"));
            let mut fitting = several.iter().filter(|at| at.checked_sub(back).is_some_and(quotes));
            fitting.next().filter(|_| fitting.next().is_none()).copied()
        })?,
    };
    Some((found + 1, lines[found].trim()))
}

/// The line of the native source: `kernel.cpp:12:29: error: ...` of gcc and clang, `kernel.cu(12): error: ...` of nvcc.
fn number(first: &str) -> Option<usize> {
    let (_suffix, rest) = first.strip_prefix("kernel.")?.split_once([':', '('])?;
    rest.split_once([':', ')'])?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "import kforge_rt\n\nA = r\"\"\"\nint twice;\nint a = b;\n\"\"\"\nB = \"\"\"\nint other;\nint c;\nint a = b;\n\"\"\"\n";

    fn line(reason: &str) -> Option<usize> {
        origin(reason, SOURCE).map(|(line, _)| line)
    }

    #[test]
    fn the_line_that_the_compiler_shows_is_found() {
        assert_eq!(line("kernel.cpp:3:9: error: no c\n    3 |   int c;\n      |       ^"), Some(9));
        assert_eq!(line("kernel.cu(3): error: no c\n    int c;\n        ^"), Some(9));
        assert_eq!(origin("kernel.cpp:2:1: error: x\n 2 | int twice;", SOURCE), Some((4, "int twice;")));
    }

    #[test]
    fn equal_lines_are_told_apart_by_where_their_source_begins() {
        assert_eq!(line("kernel.cpp:3:1: error: no b\n    3 | int a = b;"), Some(5));
        assert_eq!(line("kernel.cpp:4:1: error: no b\n    4 | int a = b;"), Some(10));
        assert_eq!(line("kernel.cpp:9:1: error: no b\n    9 | int a = b;"), None);
    }

    #[test]
    fn nothing_is_said_of_what_is_not_there() {
        for reason in ["", "kernel.cpp:3:9: error: alone", "header.h:3:9: error: x\n 3 | int c;", "nvcc failed\nint c;"]
        {
            assert_eq!(line(reason), None, "{reason}");
        }
        assert_eq!(line("kernel.cpp:3:9: error: x\n    3 | made by a macro;"), None);
        assert_eq!(line("kernel.cpp:0:9: error: x\n    0 | int a = b;"), None);
    }
}
