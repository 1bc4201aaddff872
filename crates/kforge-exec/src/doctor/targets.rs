//! What evidence each target of this version can give here.

use super::{Row, Section, Status};
use crate::process::{find_program, run_bounded};
use crate::python::advice::Interpreter;
use crate::python::machine::PackageManager;
use crate::python::{PythonEnv, PythonRequest};
use std::process::Command;
use std::time::Duration;

/// NVIDIA GPUs, and whether their driver answers.
#[derive(Debug, Clone, Default)]
pub(super) struct Gpus {
    /// Device files.
    devices: usize,
    /// Names, from the driver.
    names: Vec<String>,
}

pub(super) fn nvidia_gpus(request: &PythonRequest, limit: Duration) -> Gpus {
    let devices = request.machine().nvidia().len();
    let names = find_program("nvidia-smi", &request.path)
        .and_then(|program| run_bounded(Command::new(program).arg("-L"), limit, 16 * 1024).ok())
        .filter(|output| output.status.success())
        .map(|output| output.stdout_text().lines().filter_map(gpu_name).collect())
        .unwrap_or_default();
    Gpus { devices, names }
}

/// `NVIDIA H200` of `GPU 0: NVIDIA H200 (UUID: GPU-...)`.
fn gpu_name(line: &str) -> Option<String> {
    let (_, name) = line.trim().strip_prefix("GPU ")?.split_once(": ")?;
    Some(name.split(" (UUID").next().unwrap_or(name).to_owned())
}

/// One row for each target; `rows` are the rows about Python and toolchains.
pub(super) fn rows(env: Option<&PythonEnv>, gpus: &Gpus, rows: &[Row], request: &PythonRequest) -> Vec<Row> {
    let facts = Facts { env, gpus, rows, request };
    vec![facts.cpu_cpp(), facts.nvidia_cuda(), facts.nvidia_cute(), facts.nvidia_triton()]
}

struct Facts<'a> {
    env: Option<&'a PythonEnv>,
    gpus: &'a Gpus,
    rows: &'a [Row],
    request: &'a PythonRequest,
}

impl Facts<'_> {
    fn row(&self, name: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.name == name)
    }

    /// A target that waits for Python: the managed environment comes by itself, a broken choice does not.
    fn without_python(&self, target: &str) -> Row {
        let python = self.row("python");
        if python.is_some_and(|row| row.status == Status::Limited) {
            let detail = "not yet: the first evaluation makes a Python environment";
            return Row::new(Section::Target, target, Status::Limited, detail);
        }
        Row::new(Section::Target, target, Status::Missing, "not available: no usable Python")
            .mended_by(python.and_then(|row| row.mend.clone()))
    }

    fn cpu_cpp(&self) -> Row {
        let compiler = self.row("c++").filter(|row| row.status != Status::Ok);
        if let Some(compiler) = compiler {
            let detail = format!("not available: {}", compiler.detail);
            return Row::new(Section::Target, "cpu/cpp", Status::Missing, detail).mended_by(compiler.mend.clone());
        }
        if self.env.is_none() {
            return self.without_python("cpu/cpp");
        }
        Row::new(Section::Target, "cpu/cpp", Status::Ok, format!("measured on {}", self.processor()))
    }

    fn processor(&self) -> String {
        let info = self.request.machine().read("proc/cpuinfo");
        let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
        model.map_or_else(|| format!("this {} CPU", std::env::consts::ARCH), |(_, name)| name.trim().to_owned())
    }

    fn nvidia_triton(&self) -> Row {
        let target = "nvidia/triton";
        let Some(env) = self.env else { return self.without_python(target) };
        if env.triton.is_none() {
            return Row::new(Section::Target, target, Status::Missing, "not available: Triton is not installed")
                .mended_by(self.row("triton").and_then(|row| row.mend.clone()));
        }
        match self.no_gpu(env).or_else(|| self.no_launcher(env)) {
            None => self.measured(target),
            Some((obstacle, mend)) => {
                let detail = format!("correct_only, by Triton's interpreter on the CPU: {obstacle}");
                Row::new(Section::Target, target, Status::Limited, detail).mended_by(mend)
            }
        }
    }

    fn measured(&self, target: &str) -> Row {
        Row::new(Section::Target, target, Status::Ok, format!("measured on {}", self.gpus.names.join(", ")))
    }

    /// CUDA C++: nvcc with a host compiler, or NVRTC alone.
    fn nvidia_cuda(&self) -> Row {
        let target = "nvidia/cuda";
        let Some(env) = self.env else { return self.without_python(target) };
        let lacking =
            ["nvcc", "c++"].into_iter().find_map(|name| self.row(name).filter(|row| row.status == Status::Missing));
        let mend = lacking.and_then(|row| row.mend.clone());
        if lacking.is_some() && env.nvrtc.is_none() {
            return Row::new(Section::Target, target, Status::Missing, "not available: neither nvcc nor NVRTC")
                .mended_by(mend);
        }
        let only = lacking.map(|row| format!("kernels through NVRTC and PTX only, since {} is missing", row.name));
        match (self.no_gpu(env), only) {
            (None, None) => self.measured(target),
            (None, Some(only)) => Row { status: Status::Limited, ..self.measured(target) }.with(&only).mended_by(mend),
            (Some((obstacle, against)), only) => {
                let row = Row::new(Section::Target, target, Status::Limited, format!("compiled, not run: {obstacle}"));
                only.map_or(row.clone(), |only| row.with(&only)).mended_by(against.or(mend))
            }
        }
    }

    fn nvidia_cute(&self) -> Row {
        let target = "nvidia/cute";
        let Some(env) = self.env else { return self.without_python(target) };
        if env.cute.is_none() {
            return Row::new(Section::Target, target, Status::Missing, "not available: CuTe DSL is not installed")
                .mended_by(self.row("cute").and_then(|row| row.mend.clone()));
        }
        match self.no_gpu(env) {
            None => self.measured(target),
            Some((obstacle, mend)) => {
                let detail = format!("compiled ahead of time, not run: {obstacle}");
                Row::new(Section::Target, target, Status::Limited, detail).mended_by(mend)
            }
        }
    }

    /// Why nothing can run on a GPU, and the command against it.
    fn no_gpu(&self, env: &PythonEnv) -> Option<(String, Option<String>)> {
        let gpus = self.gpus;
        if gpus.names.is_empty() && gpus.devices == 0 {
            return Some(("no NVIDIA GPU here".to_owned(), None));
        }
        if gpus.names.is_empty() {
            let detail = "there is an NVIDIA GPU, but nvidia-smi -L does not list it; see what nvidia-smi says";
            return Some((detail.to_owned(), Some("nvidia-smi".to_owned())));
        }
        if env.cuda.is_none() {
            let detail = format!("torch {} was built without CUDA", env.torch);
            let command = Interpreter::of(env, self.request).command("--force-reinstall torch");
            return Some((detail, Some(command)));
        }
        None
    }

    /// Why Triton cannot launch what it compiled.
    fn no_launcher(&self, env: &PythonEnv) -> Option<(String, Option<String>)> {
        if let Some(compiler) = self.row("c++").filter(|row| row.status != Status::Ok) {
            let detail = format!("Triton compiles its launchers, and {}", compiler.detail);
            return Some((detail, compiler.mend.clone()));
        }
        if !env.headers {
            let command = self.request.machine().install(|manager| match manager {
                PackageManager::Apt => Some("python3-dev"),
                PackageManager::Dnf | PackageManager::Zypper => Some("python3-devel"),
                PackageManager::Pacman | PackageManager::Brew => Some("python"),
            });
            return Some(("Triton compiles its launchers, and Python.h is not installed".to_owned(), command));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_gpus_are_cut_out() {
        let line = "GPU 0: NVIDIA H200 (UUID: GPU-01234567)";
        assert_eq!(gpu_name(line).as_deref(), Some("NVIDIA H200"));
        assert_eq!(gpu_name("No devices found."), None);
    }
}
