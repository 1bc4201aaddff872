//! What compute-sanitizer wrote: one block of lines for each error, and a summary.

use super::{
    super::ladder::quoted,
    names::{is_framework, plain},
};
use kforge_types::{SanitizerError, SanitizerTool};

const MARK: &str = "=========";
const MOST_ERRORS: usize = 1000;
/// Beginnings of lines that open an error in a kernel.
const OPENERS: [&str; 7] = [
    "Invalid ",
    "Uninitialized ",
    "Barrier error",
    "Error: Race reported",
    "ERROR: Race reported",
    "Error: Potential ",
    "Race reported",
];

/// The tools, in the order in which they are run, with what each needs.
pub(super) const TOOLS: [(&str, &[&str]); 4] = [
    // Libraries ask the driver for functions that it may not have, which is no error of the candidate's.
    ("memcheck", &["--report-api-errors", "no", "--leak-check", "no"]),
    ("racecheck", &["--racecheck-report", "analysis"]),
    ("initcheck", &[]),
    ("synccheck", &[]),
];

/// Everything that was said.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Log {
    pub(super) errors: Vec<Block>,
    /// Errors as the summary counts them; none where there is no summary.
    pub(super) counted: Option<u64>,
    /// Lines that say that the tool itself, or the program under it, failed.
    pub(super) failures: Vec<String>,
}

/// One error, and whether it is in a kernel that some framework brought along.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) error: SanitizerError,
    pub(super) framework: bool,
}

pub(super) fn parse(text: &str) -> Log {
    let mut log = Log::default();
    let mut open = false;
    for line in text.lines() {
        let Some(rest) = line.strip_prefix(MARK) else { continue };
        let indented = rest.starts_with("   ");
        let said = rest.trim();
        if let Some(count) = summary(said) {
            log.counted = Some(log.counted.unwrap_or(0).max(count));
            open = false;
        } else if !indented && OPENERS.iter().any(|opener| said.starts_with(opener)) {
            open = log.errors.len() < MOST_ERRORS;
            if open {
                log.errors.push(opened(said));
            }
        } else if open && indented {
            if let Some(block) = log.errors.last_mut() {
                fill(block, said);
            }
        } else if !said.is_empty() && !indented {
            open = false;
            let failed = ["Error:", "Internal", "Target application", "Unable", "Device not supported", "Fatal"];
            if failed.iter().any(|word| said.starts_with(word)) && log.failures.len() < 10 {
                log.failures.push(quoted(said, 200));
            }
        }
    }
    log
}

/// `ERROR SUMMARY: 2 errors`, `RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)`.
fn summary(said: &str) -> Option<u64> {
    let (_, rest) = said.split_once("SUMMARY:")?;
    if rest.contains("were not printed") {
        return None;
    }
    let counted = match rest.split_once('(') {
        Some((_, inside)) => inside,
        None => rest,
    };
    counted.split_whitespace().next()?.replace(',', "").parse().ok()
}

fn opened(said: &str) -> Block {
    let said = said.trim_start_matches("Error: ").trim_start_matches("ERROR: ");
    let mut block = Block::default();
    // A race has its first place in the same line, everything else in the next one.
    match said.split_once(" access at ") {
        Some((head, place)) if said.starts_with("Race reported") => {
            block.error.kind = quoted(&format!("{head} access"), 120);
            locate(&mut block, place);
        }
        _ => block.error.kind = quoted(said, 160),
    }
    block
}

fn fill(block: &mut Block, said: &str) {
    let error = &mut block.error;
    if let Some(place) = said.strip_prefix("at ") {
        if error.kernel.is_empty() {
            locate(block, place);
        }
    } else if let Some(thread) = said.strip_prefix("by thread ") {
        if error.thread.is_empty() {
            error.thread = quoted(thread, 80);
        }
    } else if let Some(frame) = said.strip_prefix("Device Frame:") {
        // Inlined intrinsics come first; the kernel is the outermost frame.
        locate(block, frame.trim());
    } else if said.starts_with("and ") && error.kind.starts_with("Race reported") {
        if error.address.is_empty() {
            error.address = quoted(said, 200);
        }
    } else if said.starts_with("Address") || said.starts_with("Access to") || said.starts_with("and is ") {
        let joined = format!("{} {said}", error.address);
        error.address = quoted(&joined, 200);
    }
}

/// `kernel(float *)+0x70 in kernel.cu:6`, `0x70 in kernel.cu:6:kernel(float *)`, `0x70 in kernel(float *)`.
fn locate(block: &mut Block, place: &str) {
    let (code, source) = place.split_once(" in ").map_or((place, ""), |(code, source)| (code, source.trim()));
    let mut parts = source.splitn(3, ':');
    let (file, line, function) = (parts.next(), parts.next(), parts.next());
    let (name, place) = match (code.starts_with("0x"), line.and_then(|line| line.parse::<u32>().ok()), function) {
        (true, Some(line), Some(function)) => (function, format!("{}:{line}", base(file.unwrap_or_default()))),
        (true, _, _) => (source, String::new()),
        (false, _, _) => {
            let name = code.rsplit_once("+0x").map_or(code, |(name, _)| name);
            (name, base(source.split(" [").next().unwrap_or_default()).to_owned())
        }
    };
    block.framework = is_framework(name);
    block.error.kernel = plain(name.trim());
    if !place.is_empty() {
        block.error.place = quoted(&place, 120);
    }
}

/// Paths are of the sandbox, and say nothing to anybody.
fn base(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// How a run of a tool ended.
#[derive(Debug, Clone, Default)]
pub(super) struct Ended {
    pub(super) timed_out: bool,
    pub(super) limit_s: u64,
    pub(super) seconds: f64,
    /// What the program under the tool said of itself.
    pub(super) program: String,
    /// Whether the program came to its end by its own account.
    pub(super) finished: bool,
}

/// The verdict of one tool. `by_mbarrier`: some kernel synchronises in a way that racecheck is not trusted with.
pub(super) fn judge(name: &str, text: &str, ended: &Ended, by_mbarrier: bool) -> SanitizerTool {
    let log = parse(text);
    let mut made = SanitizerTool { name: name.to_owned(), seconds: ended.seconds, ..SanitizerTool::default() };
    let own: Vec<&Block> = log.errors.iter().filter(|block| !block.framework).collect();
    // Errors in a framework's kernel are the candidate's where it gave it a wrong pointer, which memcheck sees.
    let counting = if own.is_empty() && name == "memcheck" { log.errors.iter().collect() } else { own };
    made.errors = counting.len() as u64;
    made.first = counting.first().map(|block| block.error.clone());
    made.advisory = name == "racecheck" && by_mbarrier && made.errors > 0;
    // It also says where the candidate failed; every other failure is its own, and then its count means nothing.
    let broken = log.failures.iter().find(|said| !said.starts_with("Target application returned"));
    made.ran = log.counted.is_some() && !ended.timed_out && ((ended.finished && broken.is_none()) || made.errors > 0);
    made.detail = if made.errors > 0 {
        let counted = log.counted.unwrap_or(made.errors).max(made.errors);
        let advisory = if made.advisory {
            "; for information only: the kernel synchronises by mbarrier or bulk copies, where this tool also reports \
             races that are none"
        } else {
            ""
        };
        format!("{counted} error{}{advisory}", if counted == 1 { "" } else { "s" })
    } else if ended.timed_out {
        format!("it took more than {} s", ended.limit_s)
    } else if log.counted.is_none() || broken.is_some() {
        let said = broken.cloned().unwrap_or_else(|| quoted(&ended.program, 200));
        format!("it did not come to its end: {said}")
    } else if !ended.finished {
        format!("the candidate did not run under it: {}", quoted(&ended.program, 200))
    } else {
        match log.errors.len() {
            0 => "nothing found".to_owned(),
            n => format!("nothing in the candidate's own kernels; {n} errors in kernels of the framework"),
        }
    };
    made
}

#[cfg(test)]
mod tests;
