//! Kernels for GPUs, as far as a machine without one can tell: CUDA sources compile, Triton kernels are right when
//! interpreted and compile. `scripts/gpu_suite.py` judges them all on a GPU.

use crate::support::{LANES, ONE_THREAD, all, answers, errors, in_lanes, kforge, python_files, root, run, verdict};
use kforge_guard::Language;
use std::{
    fmt::Write,
    path::{Path, PathBuf},
    process::Command,
};

/// Only with `KFORGE_CASE`: the interpreter needs minutes for the first two and long for the third; what the last two do,
/// softmax and the group norm do too. The harness's `tests/test_gpu_examples_aot.py` compiles them, and all the others, at
/// their problems' own sizes.
const LEFT_TO_A_GPU: [&str; 5] = ["attention", "depthwise_conv", "rotary", "layernorm", "rmsnorm"];

/// Interpreted kernels have no time worth knowing.
const VERIFY_ONLY: [&str; 6] = ["eval", "--json", "--target", "nvidia/triton", "--no-timing", ONE_THREAD];

/// How many Python files are in each folder, or more: fewer mean that some were lost, and `scripts/gpu_suite.py`, which
/// judges these, would pass the rest. Raise them with every file that is added.
const FILES: [(&str, usize); 6] = [
    ("corpus/gpu/cheats", 73),
    ("corpus/gpu/honest", 29),
    ("corpus/gpu/unsound", 4),
    ("corpus/gpu/crowded", 1),
    ("corpus/gpu/problems", 18),
    ("examples/gpu/failing", 9),
];
/// The same of the examples, by what they have.
const EXAMPLES: [(&str, usize); 5] = [
    ("problem.py", 14),
    ("nvidia_triton.py", 14),
    ("nvidia_cuda.py", 13),
    ("nvidia_cute.py", 2),
    ("load_inline.py", 1),
];
const INTERPRETED: usize = 9;

/// What the files of an example are written in.
const LANGUAGES: [(&str, Language); 4] = [
    ("nvidia_cuda.py", Language::Cuda),
    ("load_inline.py", Language::Cuda),
    ("nvidia_triton.py", Language::Triton),
    ("nvidia_cute.py", Language::Cute),
];

const ARCHITECTURE: &str = "-gencode=arch=compute_90a,code=sm_90a";

/// What `KFORGE_NVCC` names, and it must be there: `scripts/test` sets it. Without the variable the first nvcc on the path;
/// people who run `cargo test` by hand may have none.
fn nvcc() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("KFORGE_NVCC").map(PathBuf::from) {
        assert!(named.is_file(), "KFORGE_NVCC is '{}', where no nvcc is", named.display());
        return Some(named);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|folder| folder.join("nvcc")).find(|file| file.is_file())
}

fn example_folders() -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = std::fs::read_dir(root().join("examples/gpu"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.join("problem.py").exists())
        .collect();
    found.sort();
    found
}

/// The strings of a Python file that hold CUDA kernels and need no headers but CUDA's own. Those that need torch's are
/// compiled by the harness's `tests/test_gpu_examples_aot.py`, which knows where these lie.
fn cuda_sources(file: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(file).unwrap();
    let strings = text.split("\"\"\"").skip(1).step_by(2);
    strings.filter(|one| one.contains("__global__") && !one.contains("torch/")).map(str::to_owned).collect()
}

/// What is wrong with a source, in the compiler's words; warnings and spilled registers count too.
fn compile(nvcc: &Path, source: &str, scratch: &Path) -> Result<(), String> {
    let (input, output) = (scratch.with_extension("cu"), scratch.with_extension("o"));
    std::fs::write(&input, source).unwrap();
    let flags = ["-std=c++17", "-O3", "-c", "-Xcompiler", "-fPIC", "-Werror", "all-warnings", "-Xptxas", "-v"];
    let built = run(Command::new(nvcc).arg(ARCHITECTURE).args(flags).arg(&input).arg("-o").arg(&output));
    let log = errors(&built);
    let spills = |line: &&str| line.contains("bytes spill stores") && !line.contains(" 0 bytes spill stores");
    match log.lines().find(spills) {
        _ if !built.status.success() => Err(log),
        Some(line) => Err(format!("registers are spilled: {}", line.trim())),
        None => Ok(()),
    }
}

#[test]
fn cuda_sources_compile_for_hopper() {
    let Some(nvcc) = nvcc() else {
        println!("skipped: no nvcc, which `eval \"$(scripts/cuda-tools)\"` brings");
        return;
    };
    let folders = ["examples/gpu/failing", "corpus/gpu/cheats", "corpus/gpu/honest", "corpus/gpu/unsound"]
        .map(|name| root().join(name));
    let files = folders.into_iter().chain(example_folders()).flat_map(|folder| python_files(&folder));
    let sources: Vec<(PathBuf, String)> =
        files.flat_map(|file| cuda_sources(&file).into_iter().map(move |source| (file.clone(), source))).collect();
    let scratch = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cuda-sources");
    std::fs::create_dir_all(&scratch).unwrap();
    let numbered: Vec<_> = sources.iter().enumerate().collect();
    let wrong: String = in_lanes(LANES, &numbered, |(number, (file, source))| {
        let result = compile(&nvcc, source, &scratch.join(number.to_string()));
        match (result, file.ends_with("failing/compilation_failure.py")) {
            (Ok(()), true) => format!("{} compiles\n", file.display()),
            (Err(why), false) => format!("{}: {why}\n", file.display()),
            _ => String::new(),
        }
    })
    .concat();
    println!("{} CUDA sources", sources.len());
    assert!(!all() || sources.len() >= 50, "{} sources", sources.len());
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn triton_examples_for_gpus_are_right_and_compile_without_one() {
    let chosen = |folder: &PathBuf| match std::env::var("KFORGE_CASE") {
        Ok(part) => folder.to_string_lossy().contains(&part),
        Err(_) => !LEFT_TO_A_GPU.iter().any(|name| folder.ends_with(name)),
    };
    let written = |folder: &PathBuf| folder.join("nvidia_triton.py").exists();
    let folders: Vec<PathBuf> = example_folders().into_iter().filter(written).filter(chosen).collect();
    let wrong: String = in_lanes(LANES, &folders, |folder| {
        let output =
            run(kforge().args(VERIFY_ONLY).args(["problem.py", "nvidia_triton.py"].map(|name| folder.join(name))));
        match answers(&output).pop() {
            Some(answer) if verdict(&answer) == "correct" => String::new(),
            Some(answer) => format!("{}: {answer}\n", folder.display()),
            None => format!("{}: {}\n", folder.display(), errors(&output)),
        }
    })
    .concat();
    let judged = folders.len();
    println!("{judged} Triton examples");
    assert!(!all() || judged >= INTERPRETED, "{judged}");
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn no_corpus_for_gpus_has_lost_files() {
    for (folder, at_least) in FILES.into_iter().filter(|_| all()) {
        let found = python_files(&root().join(folder)).len();
        assert!(found >= at_least, "{folder}: {found} of {at_least} files");
    }
    let examples = example_folders();
    for (name, at_least) in EXAMPLES {
        let found = examples.iter().filter(|folder| folder.join(name).exists()).count();
        assert!(found >= at_least, "{name}: {found} of {at_least} examples");
    }
}

/// A rule that refuses an honest kernel, or a cheat that is said to be caught by rules and is not, shows here.
#[test]
fn source_rules_agree_with_what_gpu_candidates_expect() {
    let imports = ["torch", "kforge_rt", "numpy", "triton", "cutlass", "cuda"].map(str::to_owned).to_vec();
    let settings = kforge_guard::Settings { imports: Some(imports), ..Default::default() };
    let (mut wrong, mut checked) = (String::new(), 0);
    let folders = ["examples/gpu/failing", "corpus/gpu/cheats", "corpus/gpu/honest", "corpus/gpu/unsound"]
        .map(|name| root().join(name));
    for file in folders.into_iter().chain(example_folders()).flat_map(|folder| python_files(&folder)) {
        if file.ends_with("problem.py") {
            continue;
        }
        let text = std::fs::read_to_string(&file).unwrap();
        let known = LANGUAGES.iter().find(|(name, _)| file.ends_with(name)).map(|(_, language)| *language);
        if known.is_some() && kforge_guard::language(&text) != known {
            _ = writeln!(wrong, "{}: taken for {:?}", file.display(), kforge_guard::language(&text));
        }
        let expected = crate::support::header(&file, "expect").unwrap_or_else(|| "correct".to_owned());
        let report = kforge_guard::check(&text, &settings);
        let first = report.hard().next().map(|finding| format!("{}: {}", finding.rule, finding.excerpt));
        checked += 1;
        match first {
            Some(text) if !expected.contains("guardrail") => _ = writeln!(wrong, "{}: {text}", file.display()),
            None if expected == "generation_failure/guardrail" => {
                _ = writeln!(wrong, "{}: no rule refuses it", file.display());
            }
            _ => {}
        }
    }
    println!("{checked} candidates");
    assert!(wrong.is_empty(), "{wrong}");
}
