//! Whether a compiler is missing on this machine. A cell may say so; it is looked for here before that is believed.

use crate::doctor::{DoctorRequest, Row, Section, Status, diagnose};
use serde_json::Value;
use std::path::PathBuf;

/// What the candidates of a target may be built with.
#[derive(Debug, Clone)]
pub(crate) struct Compilers {
    /// The interpreter of the cells: some compilers are packages of it.
    pub(crate) python: PathBuf,
    /// As in `EvalOptions`.
    pub(crate) toolchains: Value,
}

impl Compilers {
    /// What `kforge doctor` says of `tool` and the command that would mend it; nothing where the tool is here after all,
    /// or where this target does not build with it.
    pub(crate) fn missing(&self, tool: &str) -> Option<String> {
        if !self.offers(tool) {
            return None;
        }
        let mut request = DoctorRequest::from_environment(Some(self.python.clone()), Vec::new());
        // Cells find programs beside their interpreter, too.
        request.python.path.extend(self.python.parent().map(PathBuf::from));
        diagnose(&request).into_iter().find(|row| row.name == tool).and_then(|row| said(&row))
    }

    fn offers(&self, tool: &str) -> bool {
        match self.toolchains.as_object().filter(|tables| !tables.is_empty()) {
            Some(tables) => tables.iter().any(|(language, table)| {
                table.pointer("/compilers/0").is_some_and(|first| first == tool)
                    || (language == "cuda" && tool == "nvrtc")
            }),
            // Then `kforge_rt` has all of its own.
            None => true,
        }
    }
}

fn said(row: &Row) -> Option<String> {
    if row.section != Section::Toolchain || row.status != Status::Missing {
        return None;
    }
    let mend = row.mend.as_ref().map_or_else(|| "install it".to_owned(), |command| format!("run `{command}`"));
    Some(format!("{}: {}; {mend}, then judge again", row.name, row.detail))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn offered(toolchains: Value) -> Vec<&'static str> {
        let compilers = Compilers { python: PathBuf::from("python3"), toolchains };
        ["c++", "nvcc", "nvrtc", "hipcc"].into_iter().filter(|tool| compilers.offers(tool)).collect()
    }

    #[test]
    fn only_what_a_target_builds_with_can_be_missing() {
        assert_eq!(offered(json!({"cpp": {"compilers": ["c++", "g++"]}})), ["c++"]);
        assert_eq!(offered(json!({"cuda": {"compilers": ["nvcc"]}})), ["nvcc", "nvrtc"]);
        assert_eq!(offered(json!({})).len(), 4);
    }

    #[test]
    fn what_is_missing_comes_with_the_command_and_what_is_not_with_nothing() {
        let row = |status| Row::new(Section::Toolchain, "nvcc", status, "not found; nvidia/cuda needs it");
        let mended = row(Status::Missing).mended_by(Some("apt install x".to_owned()));
        let text = said(&mended).unwrap();
        assert_eq!(text, "nvcc: not found; nvidia/cuda needs it; run `apt install x`, then judge again");
        assert!(said(&row(Status::Missing)).unwrap().ends_with("; install it, then judge again"));
        assert_eq!((said(&row(Status::Limited)), said(&row(Status::Ok))), (None, None));
        assert_eq!(said(&Row { section: Section::Profiler, ..mended }), None);
    }
}
