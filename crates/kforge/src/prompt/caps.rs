//! How much of each foreign item a prompt may hold, in bytes. What is longer is cut in the middle and says so.

const KIB: usize = 1 << 10;

/// The problem's source.
pub(crate) const PROBLEM: usize = 64 * KIB;
/// The user's own words about the task.
pub(crate) const TASK: usize = 16 * KIB;
/// A candidate's source.
pub(crate) const CANDIDATE: usize = 48 * KIB;
/// A verdict's reason.
pub(crate) const REASON: usize = 4 * KIB;
/// What a check saw.
pub(crate) const CHECK_DETAIL: usize = KIB;
/// A compiler's log.
pub(crate) const COMPILER_LOG: usize = 4 * KIB;
/// Findings of source rules, in number.
pub(crate) const FINDINGS: usize = 12;
/// The start of a reply that held no candidate.
pub(crate) const BAD_REPLY: usize = 4 * KIB;
/// One document of a profile, and all of them.
pub(crate) const PROFILE_DOCUMENT: usize = 6 * KIB;
pub(crate) const PROFILE_DOCUMENTS: usize = 24 * KIB;
/// One finding of a profile, and their number.
pub(crate) const PROFILE_FINDING: usize = KIB;
pub(crate) const PROFILE_FINDINGS: usize = 24;
/// Metrics behind one finding, in number.
pub(crate) const PROFILE_METRICS: usize = 40;
/// One auxiliary file, and all of them.
pub(crate) const AUX_FILE: usize = 16 * KIB;
pub(crate) const AUX_FILES: usize = 64 * KIB;
/// One appended text, and all of them.
pub(crate) const APPEND: usize = 16 * KIB;
/// An implementation for another accelerator.
pub(crate) const REFERENCE: usize = 48 * KIB;
/// One line of the history, and all of it.
pub(crate) const HISTORY_LINE: usize = 800;
pub(crate) const HISTORY: usize = 10 * KIB;
/// What an attempt was advised to do, and why it failed, in its line.
pub(crate) const HISTORY_PART: usize = 240;
/// Names, notes and other things that are one line.
pub(crate) const LINE: usize = 300;
/// Notes about the problem or the device, in number.
pub(crate) const NOTES: usize = 12;
