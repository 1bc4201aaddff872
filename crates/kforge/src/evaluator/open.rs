//! From a request to whoever fulfils it.

use super::{Evaluator, Outlook, source_rules};
use crate::{
    config::{self, Evaluation, SourceRules},
    executor::{Destination, Executor, FolderTransport, HereRequest, Local, Remote, SshTransport, Transport},
    job::{JobOptions, Problem, Purpose},
    target,
    text::file_name,
    usage::Usage,
};
use kforge_exec::Incumbent;
use kforge_types::Target;
use std::path::{Path, PathBuf};

/// One problem on one target, and how its candidates are judged.
#[derive(Debug, Clone)]
pub struct Request {
    /// The problem's file; results name it as it is named here.
    pub problem: PathBuf,
    /// Accelerator and programming model.
    pub target: Target,
    /// What a candidate's source may say.
    pub rules: SourceRules,
    /// How candidates are judged, and by whom.
    pub evaluation: Evaluation,
    /// What for.
    pub purpose: Purpose,
    /// Kernels of the user's that must be beaten too.
    pub baselines: Vec<PathBuf>,
    /// The Python with torch, where one is named.
    pub python: Option<PathBuf>,
    /// Files and folders beside the problem that its imports do not show, for others who evaluate.
    pub carry: Vec<PathBuf>,
    /// Sets jobs apart that are equal in all else. Where it is empty an exchange folder gives the answer that it has.
    pub tag: String,
}

impl Evaluator {
    /// Reads the problem and refuses what cannot be done as it is asked for. Nothing is started yet.
    pub fn open(request: &Request) -> anyhow::Result<Self> {
        let problem_source = std::fs::read(&request.problem)
            .map_err(|error| Usage(format!("cannot read the problem {}: {error}", request.problem.display())))?;
        let pack = target::find(&request.target).map_err(|error| Usage(error.to_string()))?;
        let baselines = incumbents(&request.baselines)?;
        let options = JobOptions::of(&request.evaluation, &pack.name, baselines, request.purpose);
        Ok(Self {
            problem_file: request.problem.display().to_string(),
            problem_source,
            contract: options.contract.clone(),
            rules: source_rules(&request.rules, pack.imports.clone())?,
            outlook: Outlook::of(&request.evaluation, &pack)?,
            target: pack.name,
            executor: executor(request, options)?,
        })
    }
}

/// The user's own kernels, by the names of their files.
fn incumbents(files: &[PathBuf]) -> Result<Vec<Incumbent>, Usage> {
    let read = |path: &PathBuf| {
        let source = std::fs::read_to_string(path)
            .map_err(|error| Usage(format!("cannot read the baseline {}: {error}", path.display())))?;
        Ok(Incumbent { name: file_name(path), source })
    };
    files.iter().map(read).collect()
}

fn executor(request: &Request, options: JobOptions) -> anyhow::Result<Box<dyn Executor>> {
    let Some(transport) = transport(request)? else {
        if !request.carry.is_empty() {
            let text = "--carry is for exchange:DIR and ssh:HOST: in place the problem's folder is there";
            return Err(Usage(text.to_owned()).into());
        }
        let here = HereRequest { python: request.python.clone(), cache: None, device: request.evaluation.device };
        return Ok(Box::new(Local::new(options, here, request.problem.clone())));
    };
    let mut tag = request.tag.clone();
    if tag.is_empty() && matches!(request.evaluation.executor, config::Executor::Ssh { .. }) {
        // Whoever asks again over ssh wants to have it measured again; a folder is how answers are come back for.
        tag = jiff::Timestamp::now().to_string();
    }
    Ok(Box::new(Remote {
        transport,
        problem: Problem::load(&request.problem, &request.carry)?,
        problem_file: request.problem.display().to_string(),
        options,
        tag,
    }))
}

/// The way to others; nothing where this process evaluates. What only the other side can decide is refused.
fn transport(request: &Request) -> anyhow::Result<Option<Box<dyn Transport>>> {
    let (python, device) = (request.python.as_deref(), request.evaluation.device);
    let timeout = request.evaluation.executor_timeout.map(|span| span.0);
    let refuse = |what: &str, flag: &str| {
        Usage(format!("with exchange:DIR the worker chooses its {what}: give {flag} to `kforge worker drain`"))
    };
    Ok(match &request.evaluation.executor {
        config::Executor::InPlace => None,
        config::Executor::Exchange(_) if python.is_some() => return Err(refuse("Python", "--python").into()),
        config::Executor::Exchange(_) if device.is_some() => return Err(refuse("GPU", "--device").into()),
        config::Executor::Exchange(folder) => Some(Box::new(FolderTransport::open(folder, timeout)?)),
        config::Executor::Ssh { host, program } => {
            let words = words(python, device)?;
            let to = Destination { host: host.clone(), program: program.clone(), words };
            Some(Box::new(SshTransport::new(to, timeout)))
        }
    })
}

/// What the worker behind ssh is told.
fn words(python: Option<&Path>, device: Option<usize>) -> Result<Vec<String>, Usage> {
    let mut words = Vec::new();
    if let Some(python) = python.and_then(Path::to_str) {
        if python.contains('\'') {
            return Err(Usage(format!("{python} has a quote in its name: choose another path")));
        }
        words.extend(["--python".to_owned(), python.to_owned()]);
    }
    if let Some(device) = device {
        words.extend(["--device".to_owned(), device.to_string()]);
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_behind_ssh_is_told_its_python_and_its_gpu() {
        assert_eq!(words(None, None).unwrap(), Vec::<String>::new());
        let told = words(Some(Path::new("/opt/torch/bin/python")), Some(1)).unwrap();
        assert_eq!(told, ["--python", "/opt/torch/bin/python", "--device", "1"]);
        assert!(words(Some(Path::new("it's")), None).unwrap_err().0.contains("quote"));
    }
}
