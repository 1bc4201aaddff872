//! The winner as one file that needs torch and a compiler, but not kforge.

/// Gives `import kforge_rt` its module from a text inside the same file.
pub(crate) fn standalone(candidate: &str, headline: &str) -> String {
    if !candidate.contains("kforge_rt") {
        return format!("# {headline}\n{candidate}");
    }
    // Python wants these before anything else.
    let (future, rest): (Vec<&str>, Vec<&str>) =
        candidate.lines().partition(|line| line.starts_with("from __future__ import"));
    let future = future.into_iter().fold(String::new(), |text, line| text + line + "\n");
    let candidate = rest.join("\n");
    let runtime = serde_json::to_string(kforge_exec::runtime_source()).unwrap_or_default();
    format!(
        "# {headline}\n\
         {future}\
         # The first lines bring the small runtime that builds and launches the kernels; the candidate follows.\n\
         import json as _json, sys as _sys, types as _types\n\
         _runtime = _types.ModuleType(\"kforge_rt\")\n\
         exec(compile(_json.loads({runtime:?}), \"kforge_rt.py\", \"exec\"), _runtime.__dict__)\n\
         _sys.modules.setdefault(\"kforge_rt\", _runtime)\n\n\
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
        assert!(text.find("_sys.modules").unwrap() < text.find("\nimport kforge_rt").unwrap());
    }
}
