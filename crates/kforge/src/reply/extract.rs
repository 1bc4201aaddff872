//! The candidate in a model's reply.
//!
//! Asked for is one line `Idea: ...` and one fenced Python file. What comes is anything: several blocks, longer fences,
//! reasoning in front, no fence at all, half a file. What cannot be taken for a whole candidate is an error whose text
//! says what to send instead.

use super::{
    fences::{self, Block},
    without_thinking,
};
use crate::text::one_line;

/// Larger replies are refused unread.
pub(crate) const MAX_REPLY: usize = 1 << 20;
/// Larger candidates are refused: kernels have a few hundred lines.
pub(crate) const MAX_CANDIDATE: usize = 256 << 10;
/// Characters of an idea.
const MAX_IDEA: usize = 200;
const CLASSES: [&str; 2] = ["NewModel", "ModelNew"];

/// A candidate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Extracted {
    /// The file, with `\n` line ends and no byte order mark.
    pub(crate) source: String,
    /// The line `Idea: ...`, where there is one.
    pub(crate) idea: Option<String>,
    /// What was noticed on the way, as sentences.
    pub(crate) notes: Vec<String>,
}

/// There is no candidate in the reply.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ExtractError {
    #[error(
        "the reply is empty; answer with one line `Idea: ...` and one fenced python block that holds the complete file"
    )]
    Empty,
    #[error(
        "the reply holds no code, only prose; answer with the complete file in one block that begins with ```python and ends with ```"
    )]
    OnlyProse,
    #[error(
        "the reply holds a diff; nothing is patched here: answer with the complete file in one fenced python block"
    )]
    OnlyDiff,
    #[error(
        "the reply breaks off: its last code block has no closing fence; answer again with the complete file, shorter if it \
         did not fit"
    )]
    Truncated,
    #[error(
        "the reply breaks off within its reasoning; think less and answer with the complete file in one fenced python block"
    )]
    OnlyThinking,
    #[error(
        "no code block defines `class NewModel(nn.Module)`; answer with one complete Python file that defines it, kernels \
         included"
    )]
    NoModel,
    #[error(
        "the reply holds several files ({0}); a candidate is one Python file: put the native source into a string in it and \
         answer with one block"
    )]
    SeveralFiles(String),
    #[error("the reply has {0} bytes, more than the {MAX_REPLY} that are read; answer with one short Python file")]
    ReplyTooLarge(usize),
    #[error(
        "the candidate has {0} bytes, more than the {MAX_CANDIDATE} allowed; compute tables instead of writing them out"
    )]
    CandidateTooLarge(usize),
}

/// Finds the candidate in a reply.
pub(crate) fn extract(reply: &str) -> Result<Extracted, ExtractError> {
    if reply.len() > MAX_REPLY {
        return Err(ExtractError::ReplyTooLarge(reply.len()));
    }
    let text = reply.trim_start_matches('\u{feff}').replace("\r\n", "\n");
    let text = without_thinking(&text).ok_or(ExtractError::OnlyThinking)?;
    if text.trim().is_empty() {
        return Err(ExtractError::Empty);
    }
    let parsed = fences::parse(text, &is_whole);
    if parsed.blocks.is_empty() {
        return bare(text);
    }
    let mut notes = Vec::new();
    let block = choose(&parsed.blocks, &mut notes)?;
    let idea = idea_in(&parsed.prose).or_else(|| idea_in_comment(&block.text));
    finish(block.text.trim_start_matches('\u{feff}'), idea, notes)
}

fn finish(source: &str, idea: Option<String>, mut notes: Vec<String>) -> Result<Extracted, ExtractError> {
    if source.len() > MAX_CANDIDATE {
        return Err(ExtractError::CandidateTooLarge(source.len()));
    }
    if let Some(line) = source.lines().find(|line| is_elision(line)) {
        notes.push(format!("the file may be incomplete: it says {:?}", one_line(line, 80)));
    }
    let source = format!("{}\n", source.trim_matches('\n').trim_end());
    Ok(Extracted { source, idea, notes })
}

/// A reply without fences: the whole of it, or all after the idea, must be a Python file.
fn bare(text: &str) -> Result<Extracted, ExtractError> {
    if looks_like_diff(text) {
        return Err(ExtractError::OnlyDiff);
    }
    let without_idea = text.trim_start().split_once('\n').filter(|(first, _)| idea_of(first).is_some());
    for source in [without_idea.map(|(_, rest)| rest), Some(text)].into_iter().flatten() {
        if is_whole(source) {
            let idea = without_idea.and_then(|(first, _)| idea_of(first)).or_else(|| idea_in_comment(source));
            return finish(source, idea, vec!["the file came without a fence".to_owned()]);
        }
    }
    Err(if defines_model(text) { ExtractError::NoModel } else { ExtractError::OnlyProse })
}

/// The last closed block that defines the model.
fn choose<'a>(blocks: &'a [Block], notes: &mut Vec<String>) -> Result<&'a Block, ExtractError> {
    let models: Vec<&Block> = blocks.iter().filter(|block| is_candidate(block)).collect();
    let Some(chosen) = models.last() else { return Err(why_none(blocks)) };
    if let Some(name) = needed_file(chosen, blocks) {
        return Err(ExtractError::SeveralFiles(name));
    }
    if blocks.iter().any(|block| !block.closed) {
        notes.push("the last code block has no closing fence and was left out".to_owned());
    }
    let different = models.iter().filter(|block| block.text != chosen.text).count();
    if different > 0 {
        notes.push(format!("{different} earlier blocks also define the model; the last one was taken"));
    }
    let others = blocks.len() - models.len();
    if others > 0 {
        notes.push(format!("{others} other code blocks were left out"));
    }
    Ok(chosen)
}

fn is_candidate(block: &Block) -> bool {
    block.closed && may_be_python(&block.info) && defines_model(&block.text) && !looks_like_diff(&block.text)
}

fn why_none(blocks: &[Block]) -> ExtractError {
    if blocks.iter().any(|block| !block.closed && !is_diff(block) && may_be_python(&block.info)) {
        return ExtractError::Truncated;
    }
    if blocks.iter().any(is_diff) {
        return ExtractError::OnlyDiff;
    }
    if blocks.iter().any(|block| !block.closed) {
        return ExtractError::Truncated;
    }
    let mut names: Vec<String> = blocks.iter().filter_map(file_name).collect();
    names.dedup();
    match names.len() {
        0 | 1 if blocks.iter().all(|block| block.text.trim().is_empty()) => ExtractError::Empty,
        0 | 1 => ExtractError::NoModel,
        _ => ExtractError::SeveralFiles(names.join(", ")),
    }
}

/// A file of the reply, other than the chosen one, that the chosen one imports or opens.
fn needed_file(chosen: &Block, blocks: &[Block]) -> Option<String> {
    let own = file_name(chosen);
    let others = blocks.iter().filter(|block| *block != chosen).filter_map(file_name);
    let needed = others.filter(|name| Some(name) != own.as_ref()).find(|name| refers_to(&chosen.text, name))?;
    Some(match own {
        Some(own) => format!("{own}, {needed}"),
        None => needed,
    })
}

fn refers_to(source: &str, name: &str) -> bool {
    // A file that the candidate writes itself, to compile it, is not one that it lacks.
    let writes = source.contains(".write(") || source.contains(".write_text(");
    if !writes
        && [format!("\"{name}\""), format!("'{name}'"), format!("/{name}")].iter().any(|quoted| source.contains(quoted))
    {
        return true;
    }
    let Some(stem) = name.strip_suffix(".py") else { return false };
    source.lines().any(|line| {
        let mut words = line.split([' ', ',', '\t']).filter(|word| !word.is_empty());
        matches!(words.next(), Some("import" | "from"))
            && words.next().is_some_and(|word| word.trim_matches('.') == stem)
    })
}

/// The name that a block is given: in its info string, its first comment, or the line before it.
fn file_name(block: &Block) -> Option<String> {
    let first = block.text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default().trim();
    let comment = if first.starts_with('#') || first.starts_with("//") { first } else { "" };
    let short = |text: &'_ str| if text.len() <= 120 { text.to_owned() } else { String::new() };
    [block.info.clone(), short(comment), short(&block.before)].iter().find_map(|text| name_in(text))
}

fn name_in(text: &str) -> Option<String> {
    const ENDINGS: [&str; 8] = [".py", ".cpp", ".cc", ".cu", ".c", ".h", ".hpp", ".cuh"];
    let words = text.split(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '.' | '-' | '/')));
    let names = words.map(|word| word.rsplit('/').next().unwrap_or_default().trim_end_matches('.'));
    let mut files = names.filter(|name| ENDINGS.iter().any(|end| name.len() > end.len() && name.ends_with(end)));
    files.next().map(str::to_owned)
}

/// `python`, `py3`, `{.python}`, `python:file.py`, or nothing at all.
fn may_be_python(info: &str) -> bool {
    const PYTHON: [&str; 11] =
        ["", "python", "python3", "py", "py3", "ipython", "pytorch", "torch", "triton", "text", "plaintext"];
    let word: String = info
        .trim_start_matches(['{', '.', ' '])
        .chars()
        .take_while(char::is_ascii_alphanumeric)
        .collect::<String>()
        .to_ascii_lowercase();
    PYTHON.contains(&word.as_str())
}

/// A quick look: a class or an assignment of that name at the start of a line.
fn defines_model(text: &str) -> bool {
    text.lines().any(|line| {
        CLASSES.iter().any(|name| {
            let class = line.strip_prefix("class").map(str::trim_start).and_then(|rest| rest.strip_prefix(name));
            let assigned = line.strip_prefix(name).map(str::trim_start).filter(|rest| rest.starts_with('='));
            class.is_some_and(|rest| rest.trim_start().starts_with(['(', ':', '[']))
                || assigned.is_some_and(|rest| !rest.starts_with("=="))
        })
    })
}

/// Parses as Python and binds the model at the top.
fn is_whole(source: &str) -> bool {
    if !defines_model(source) || source.len() > MAX_CANDIDATE {
        return false;
    }
    // Only the grammar is wanted here; the rules have their turn when the candidate is judged.
    let off = kforge_guard::rules().iter().map(|rule| rule.name.to_owned()).collect();
    let report = kforge_guard::check(source, &kforge_guard::Settings { off, ..kforge_guard::Settings::default() });
    report.syntax.is_none() && report.model_class.is_some()
}

fn is_diff(block: &Block) -> bool {
    let info = block.info.to_ascii_lowercase();
    info.starts_with("diff") || info.starts_with("patch") || looks_like_diff(&block.text)
}

fn looks_like_diff(text: &str) -> bool {
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    let Some(first) = lines.next() else { return false };
    let header = |line: &str| {
        ["--- ", "diff --git ", "*** Begin Patch", "<<<<<<< SEARCH"].iter().any(|start| line.starts_with(start))
    };
    let hunk = |line: &str| line.starts_with("@@ ") && line[3..].contains("@@");
    header(first) && text.lines().any(|line| hunk(line) || line.starts_with("+++ ") || line.starts_with('+'))
        || hunk(first)
        || first.starts_with("<<<<<<< SEARCH")
}

/// `# ... rest unchanged`: what stands for code that is not there.
fn is_elision(line: &str) -> bool {
    let line = line.trim().trim_start_matches(['#', '/', ' ']).to_ascii_lowercase();
    let Some(rest) = line.strip_prefix("...").or_else(|| line.strip_prefix('…')) else { return false };
    ["rest", "same", "unchanged", "existing", "remaining", "previous", "omitted"].iter().any(|word| rest.contains(word))
}

/// The first line of the prose that is an idea.
fn idea_in(prose: &str) -> Option<String> {
    prose.lines().find_map(idea_of)
}

fn idea_in_comment(source: &str) -> Option<String> {
    source.lines().take(5).find_map(|line| idea_of(line.trim().strip_prefix('#')?))
}

fn idea_of(line: &str) -> Option<String> {
    let decoration = |c: char| c.is_whitespace() || matches!(c, '*' | '_' | '#' | '>' | '-' | '`');
    let line = line.trim_start_matches(decoration);
    let label = line.get(..4).filter(|label| label.eq_ignore_ascii_case("idea"))?;
    let rest = line[label.len()..].trim_start_matches(['*', '_', '`', ' ']).strip_prefix(':')?;
    let idea = one_line(rest.trim_matches(decoration), MAX_IDEA);
    (!idea.is_empty()).then_some(idea)
}

#[cfg(test)]
mod tests;
