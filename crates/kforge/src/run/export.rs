//! The winner as one file that needs torch and a compiler, but not kforge.

/// Python imports `kforge_rt` through this from texts inside the same file.
const IMPORTER: &str = r#"
class _Runtime:
    def find_spec(self, name, path=None, target=None):
        return _machinery.ModuleSpec(name, self, is_package=name == "kforge_rt") if name in _sources else None

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        exec(compile(_sources[module.__name__], module.__name__, "exec"), module.__dict__)


_sys.meta_path.insert(0, _Runtime())
"#;

/// Gives `import kforge_rt` its package.
pub(crate) fn standalone(candidate: &str, headline: &str) -> String {
    if !candidate.contains("kforge_rt") {
        return format!("# {headline}\n{candidate}");
    }
    // Python wants these before anything else.
    let (future, rest): (Vec<&str>, Vec<&str>) =
        candidate.lines().partition(|line| line.starts_with("from __future__ import"));
    let future = future.into_iter().fold(String::new(), |text, line| text + line + "\n");
    let candidate = rest.join("\n");
    let sources = serde_json::to_string(&kforge_exec::runtime_sources()).unwrap_or_default();
    format!(
        "# {headline}\n\
         {future}\
         # The first lines bring the small runtime that builds and launches the kernels; the candidate follows.\n\
         import importlib.machinery as _machinery, json as _json, sys as _sys\n\n\
         _sources = _json.loads({sources:?})\n\n\
         {IMPORTER}\n\
         {candidate}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::standalone;

    #[test]
    fn what_needs_no_runtime_gets_none() {
        assert_eq!(standalone("import torch\n", "x"), "# x\nimport torch\n");
    }

    #[test]
    fn what_python_wants_first_comes_first() {
        let text = standalone("\"\"\"Doc.\"\"\"\nfrom __future__ import annotations\nimport kforge_rt\n", "x");
        assert!(text.starts_with("# x\nfrom __future__ import annotations\n"), "{text}");
        assert_eq!(text.lines().filter(|line| line.starts_with("from __future__")).count(), 1);
    }

    #[test]
    fn the_runtime_comes_first() {
        let text = standalone("import kforge_rt\n", "x");
        assert!(text.find("_sys.meta_path").unwrap() < text.find("\nimport kforge_rt").unwrap());
    }
}
