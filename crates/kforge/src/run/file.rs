//! `run.toml`: what a run was started with, so that another process can go on with it.

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};
use std::{
    io::Write,
    path::{Path, PathBuf},
};

const FILE: &str = "run.toml";
const VERSION: u32 = 1;

/// Everything that is not in the journal.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct RunFile {
    pub(crate) version: u32,
    pub(crate) kforge: String,
    pub(crate) started: String,
    /// The folder that relative paths below start from.
    pub(crate) folder: PathBuf,
    pub(crate) problem: PathBuf,
    pub(crate) problem_hash: String,
    /// Where it was started.
    pub(crate) device: String,
    #[serde(default)]
    pub(crate) extras: Extras,
    /// The settings that held, from all layers.
    pub(crate) settings: toml::Table,
}

/// What the command line says beside the settings.
#[allow(clippy::doc_markdown, reason = "doc comments are help texts for a terminal")]
#[derive(Debug, Clone, Default, Serialize, Deserialize, clap::Args)]
#[serde(default)]
pub(crate) struct Extras {
    /// Your own words about the task, shown in every prompt.
    #[arg(long, value_name = "TEXT")]
    pub(crate) task: Option<String>,
    /// Use your own template for a prompt: ROLE/PASS=FILE[@ITERATIONS], for example generator/optimise=mine.md.j2@2-4.
    #[arg(long, value_name = "ROLE/PASS=FILE[@RANGE]")]
    pub(crate) prompt_override: Vec<String>,
    /// Append a text to prompts: FILE[@ITERATIONS], or analyst=FILE[@ITERATIONS].
    #[arg(long, value_name = "FILE[@RANGE]")]
    pub(crate) prompt_append: Vec<String>,
    /// Show both agents a file or all text files of a folder: PATH[@ITERATIONS].
    #[arg(long, value_name = "PATH[@RANGE]")]
    pub(crate) aux: Vec<String>,
    /// A working implementation for another accelerator, to be translated.
    #[arg(long, value_name = "FILE")]
    pub(crate) reference_impl: Option<String>,
    /// A kernel that you have already: it is judged and profiled first, and the search goes on from it.
    #[arg(long, value_name = "FILE")]
    pub(crate) start: Option<PathBuf>,
    /// A kernel that must be beaten too, besides what PyTorch offers; may be repeated.
    #[arg(long, value_name = "FILE")]
    pub(crate) baseline: Vec<PathBuf>,
    /// What that implementation is written for, for example nvidia/cuda.
    #[arg(long, value_name = "TARGET")]
    pub(crate) reference_target: Option<String>,
    /// Keep every prompt and reply below this folder, for `--model replay:DIR`.
    #[arg(long, value_name = "DIR")]
    pub(crate) record: Option<PathBuf>,
    /// More models, in the form of the built-in registry [default: models.toml in the configuration folder].
    #[arg(long, value_name = "FILE")]
    pub(crate) models_file: Option<PathBuf>,
    /// The Python with torch [default: KFORGE_PYTHON, an active environment, python3, or one that kforge makes].
    #[arg(long)]
    pub(crate) python: Option<PathBuf>,
    /// Send this too: a file or folder beside the problem that its imports do not show (not with in-place); may be repeated.
    #[arg(long, value_name = "PATH")]
    pub(crate) carry: Vec<PathBuf>,
    /// Do not judge the winner a second time in a fresh process.
    #[arg(long)]
    pub(crate) no_confirm: bool,
}

impl RunFile {
    pub(crate) fn version() -> u32 {
        VERSION
    }

    /// A path that the run was told, from the folder that this process is in.
    pub(crate) fn at(&self, path: &Path) -> PathBuf {
        if std::env::current_dir().is_ok_and(|here| here == self.folder) {
            // As it was written: messages and prompts show it.
            return path.to_owned();
        }
        self.folder.join(path)
    }

    /// The same of a program, which may be a name on the search path instead.
    pub(crate) fn program_at(&self, program: &Path) -> PathBuf {
        let found = self.at(program);
        if found.exists() { found } else { program.to_owned() }
    }

    pub(crate) fn write(&self, run: &Path) -> anyhow::Result<()> {
        let path = run.join(FILE);
        let text = toml::to_string(self).context("writing run.toml")?;
        let write = || -> std::io::Result<()> {
            let temporary = run.join(".run.toml.new");
            let mut file = std::fs::File::create(&temporary)?;
            file.write_all(text.as_bytes()).and_then(|()| file.sync_all())?;
            std::fs::rename(temporary, &path)
        };
        write().with_context(|| format!("cannot write {}", path.display()))
    }

    pub(crate) fn read(run: &Path) -> anyhow::Result<Self> {
        let path = run.join(FILE);
        let text = std::fs::read_to_string(&path).map_err(|error| {
            crate::usage::Usage(format!(
                "cannot read {}: {error}; name the folder of a run, as `kforge optimize` printed it",
                path.display()
            ))
        })?;
        let file: Self = toml::from_str(&text).with_context(|| format!("{} cannot be read", path.display()))?;
        if file.version > VERSION {
            bail!("{} was written by a newer kforge (form {}): use that one", path.display(), file.version);
        }
        Ok(file)
    }
}
