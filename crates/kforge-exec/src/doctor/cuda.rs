//! What CUDA kernels are built and run with: nvcc, NVRTC, CuTe DSL, the driver.

use super::tools::version;
use super::{DoctorRequest, Row, Section, Status};
use crate::process::{find_program, is_executable};
use crate::python::PythonEnv;
use crate::python::advice::{Interpreter, shell_word};
use crate::python::machine::{Machine, PackageManager};
use std::path::PathBuf;

/// The rows, in the order in which candidates need them.
pub(super) fn rows(env: Option<&PythonEnv>, request: &DoctorRequest) -> Vec<Row> {
    let mut rows = vec![nvcc(env, request), driver(&request.python.machine())];
    if let Some(env) = env {
        let interpreter = Interpreter::of(env, &request.python);
        let row = |name, found: Option<String>, without: &str, package| match found {
            Some(found) => Row::new(Section::Toolchain, name, Status::Ok, found),
            None => Row::new(Section::Toolchain, name, Status::Missing, without)
                .mended_by(Some(interpreter.command(package))),
        };
        let nvrtc = env.nvrtc.as_ref().map(|path| path.display().to_string());
        let without = "not installed; candidates that build with jit=\"nvrtc\" need it";
        rows.push(row("nvrtc", nvrtc, without, "nvidia-cuda-nvrtc"));
        rows.push(row("cute", env.cute.clone(), "not installed; nvidia/cute needs it", "nvidia-cutlass-dsl"));
    }
    rows
}

/// In the order in which `kforge_rt` looks: named, on the search path, in the toolkit's folders, in NVIDIA's wheels.
fn nvcc(env: Option<&PythonEnv>, request: &DoctorRequest) -> Row {
    let row = |status, detail| Row::new(Section::Toolchain, "nvcc", status, detail);
    let machine = request.python.machine();
    let homes = request.cuda_homes.iter().cloned().chain([machine.root.join("usr/local/cuda")]);
    let places = request.nvcc.iter().cloned().chain(find_program("nvcc", machine.path));
    let places = places.chain(homes.map(|home| home.join("bin/nvcc"))).chain(env.and_then(|env| env.nvcc.clone()));
    let mut places: Vec<PathBuf> = places.collect();
    places.retain(|place| is_executable(place));
    let mend = install(env, request, &machine);
    let Some(place) = places.first() else {
        let detail = "not found; nvidia/cuda needs it, except for kernels through NVRTC and PTX".to_owned();
        return row(Status::Missing, detail).mended_by(mend);
    };
    match version(place, &["--version"], request.limit / 2) {
        Ok(version) => row(Status::Ok, format!("{version} at {}", place.display())),
        Err(cause) => row(Status::Limited, format!("{} does not run: {cause}", place.display())).mended_by(mend),
    }
}

/// The wheels of the version that torch was built for, since it pins what they share; CUDA 12's wheels carry no nvcc.
fn install(env: Option<&PythonEnv>, request: &DoctorRequest, machine: &Machine<'_>) -> Option<String> {
    if let Some(env) = env
        && let Some(cuda) = env.cuda.as_ref().filter(|cuda| cuda.starts_with("13."))
    {
        let package = |name| shell_word(&format!("{name}=={cuda}.*"));
        let pinned = ["nvidia-cuda-nvcc", "nvidia-cuda-crt", "nvidia-nvvm"].map(package).join(" ");
        return Some(Interpreter::of(env, &request.python).command(&format!("{pinned} nvidia-cuda-cccl")));
    }
    machine.install(|manager| match manager {
        PackageManager::Apt => Some("nvidia-cuda-toolkit"),
        PackageManager::Pacman => Some("cuda"),
        _ => None,
    })
}

fn driver(machine: &Machine<'_>) -> Row {
    let row = |status, detail: &str| Row::new(Section::Toolchain, "nvidia driver", status, detail);
    // NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  Sun Jul 27 ...
    let said = machine.read("proc/driver/nvidia/version");
    let version =
        said.split_whitespace().find(|word| word.starts_with(|c: char| c.is_ascii_digit()) && word.contains('.'));
    match version {
        Some(version) => row(Status::Ok, version),
        None if machine.root.join("dev/dxg").exists() => row(Status::Ok, "the one of Windows, under WSL"),
        None if machine.has_nvidia_on_bus() => {
            let command = machine.install(|manager| match manager {
                PackageManager::Apt if machine.is_ubuntu() => {
                    Some("ubuntu-drivers-common && sudo ubuntu-drivers install")
                }
                PackageManager::Apt => Some("nvidia-driver"),
                PackageManager::Pacman => Some("nvidia"),
                _ => None,
            });
            row(Status::Missing, "there is an NVIDIA GPU, but its driver is not loaded").mended_by(command)
        }
        None => row(Status::Missing, "no NVIDIA GPU here; kernels can be compiled, not run"),
    }
}
