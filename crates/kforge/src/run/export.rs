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

/// The reference as PyTorch itself runs it best: the problem, the switches, and a module that uses them.
pub(crate) fn framework(problem: &str, baseline: &str, mul: &str, headline: &str) -> String {
    let (how, switches) = baseline.split_once('+').unwrap_or((baseline, ""));
    let options: Vec<String> =
        switches.split('+').filter(|one| !one.is_empty()).map(|one| format!("{one:?}")).collect();
    let made = format!(
        "prepared(_inner, [{}], list(arguments), NARROW.get({mul:?}, torch.bfloat16), dtypes)",
        options.join(", ")
    );
    let fast = if how == "eager" { made } else { format!("torch.compile({made}, mode=MODES[{how:?}])") };
    let ways = without_future(kforge_exec::framework_ways_source());
    format!(
        "# {headline}\n\
         from __future__ import annotations\n\n\
         {}\n\n\n\
         # How PyTorch is switched for it.\n\
         {ways}\n\n\
         class NewModel(Model):\n    \
             \"\"\"In place of Model: made ready at its first call, for inputs of that shape.\"\"\"\n\n    \
             def forward(self, *arguments):\n        \
                 if \"_fast\" not in self.__dict__:\n            \
                     _inner = Model.__new__(Model)\n            \
                     _inner.__dict__ = {{k: v for k, v in self.__dict__.items()}}\n            \
                     outputs = []\n            \
                     with torch.inference_mode():\n                \
                         tree_map_only(torch.Tensor, outputs.append, _inner(*arguments))\n            \
                     dtypes = [tensor.dtype for tensor in outputs]\n            \
                     self.__dict__[\"_fast\"] = {fast}\n        \
                 return self._fast(*arguments)\n",
        without_future(problem)
    )
}

fn without_future(text: &str) -> String {
    text.lines().filter(|line| !line.starts_with("from __future__ import")).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::{framework, standalone};

    #[test]
    fn the_frameworks_best_is_the_problem_with_its_switches() {
        let problem = "from __future__ import annotations\nimport torch\n\n\nclass Model(torch.nn.Module): pass\n";
        let text = framework(problem, "max-autotune+cast-weights+channels_last", "bf16", "x");
        assert!(text.starts_with("# x\nfrom __future__ import annotations\n\nimport torch\n"), "{text}");
        assert_eq!(text.matches("from __future__").count(), 1);
        let made = "torch.compile(prepared(_inner, [\"cast-weights\", \"channels_last\"], list(arguments), \
                    NARROW.get(\"bf16\", torch.bfloat16), dtypes), mode=MODES[\"max-autotune\"])";
        assert!(text.contains(made) && text.contains("class InItsWay") && text.contains("class NewModel(Model)"));
        let plain = framework(problem, "eager", "fp32", "x");
        assert!(plain.contains("self.__dict__[\"_fast\"] = prepared(_inner, []"), "{plain}");
    }

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
