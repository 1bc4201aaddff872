use super::*;
use crate::python::testing::{machine, script};
use std::fs;
use std::time::Instant;
use tempfile::TempDir;

/// A machine with a search path, and what is on it.
struct Fake {
    folder: TempDir,
    request: DoctorRequest,
}

impl Fake {
    fn new() -> Self {
        let (folder, python) = machine();
        Self {
            folder,
            request: DoctorRequest {
                python,
                sandbox: Vec::new(),
                nvcc: None,
                cuda_homes: Vec::new(),
                limit: Duration::from_secs(10),
            },
        }
    }

    fn program(self, name: &str, body: &str) -> Self {
        script(&self.folder.path().join("path").join(name), body);
        self
    }

    fn file(self, name: &str, text: &str) -> Self {
        let path = self.folder.path().join("root").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    fn python(self, facts: &str) -> Self {
        let head = r#""version": "3.12.1", "numpy": "2.4.6", "pip": true, "venv": true"#;
        self.program("python3", &format!("echo 'kforge-probe {{{head}, {facts}}}'"))
    }

    fn gpu(self) -> Self {
        self.file("dev/nvidia0", "").program("nvidia-smi", "echo 'GPU 0: NVIDIA H200 (UUID: GPU-1)'")
    }

    fn compiler(self) -> Self {
        self.program("g++", "echo 'g++ (Debian 12.2.0) 12.2.0'; echo Copyright")
    }

    fn row(&self, name: &str) -> Row {
        let rows = diagnose(&self.request);
        rows.iter().find(|row| row.name == name).unwrap_or_else(|| panic!("{name}: {rows:#?}")).clone()
    }
}

const CUDA_TORCH: &str =
    r#""torch": "2.11.0+cu130", "cuda": "13.0", "triton": "3.6.0", "ninja": "1.13", "headers": true"#;

#[test]
fn a_complete_machine_measures() {
    let fake = Fake::new().python(CUDA_TORCH).compiler().gpu().file("proc/cpuinfo", "model name\t: Chip 9\n");
    let rows = diagnose(&fake.request);
    assert!(rows.is_sorted_by_key(|row| row.section));
    let detail = |name: &str| rows.iter().find(|row| row.name == name).map(|row| (row.status, row.detail.as_str()));
    assert_eq!(detail("cpu/cpp"), Some((Status::Ok, "measured on Chip 9")));
    assert_eq!(detail("nvidia/triton"), Some((Status::Ok, "measured on NVIDIA H200")));
    assert_eq!(detail("torch"), Some((Status::Ok, "2.11.0+cu130")));
    assert_eq!(detail("triton"), Some((Status::Ok, "3.6.0")));
    let compiler = detail("c++").unwrap();
    assert!(compiler.1.starts_with("g++ (Debian 12.2.0) 12.2.0 at ") && compiler.1.ends_with("path/g++"));
}

#[test]
fn no_gpu_leaves_correctness() {
    let row = Fake::new().python(CUDA_TORCH).compiler().row("nvidia/triton");
    assert_eq!((row.status, row.mend), (Status::Limited, None));
    assert!(row.detail.starts_with("correct_only") && row.detail.contains("no NVIDIA GPU"), "{}", row.detail);
}

#[test]
fn each_obstacle_to_measuring_has_its_command() {
    let cpu_build = CUDA_TORCH.replace(r#""cuda": "13.0""#, r#""cuda": null"#);
    let row = Fake::new().python(&cpu_build).compiler().gpu().row("nvidia/triton");
    assert!(row.mend.unwrap().ends_with("-m pip install --upgrade --force-reinstall torch"));

    let no_headers = CUDA_TORCH.replace(r#""headers": true"#, r#""headers": false"#);
    let fake = Fake::new().python(&no_headers).compiler().gpu().program("apt-get", "");
    assert!(fake.row("nvidia/triton").mend.unwrap().ends_with("apt-get install -y python3-dev"));

    let row = Fake::new().python(CUDA_TORCH).compiler().file("dev/nvidia0", "").row("nvidia/triton");
    assert!(row.detail.contains("nvidia-smi -L does not list it"), "{}", row.detail);

    let fake = Fake::new().python(r#""torch": "2.11.0+cpu""#).compiler();
    let python = fake.folder.path().join("path/python3");
    let command = format!("{} -m pip install --upgrade triton", python.display());
    assert_eq!(fake.row("nvidia/triton").mend.as_ref(), Some(&command));
    assert_eq!(fake.row("triton").mend, Some(command));
}

#[test]
fn a_missing_compiler_names_the_package_of_this_system() {
    for (manager, package) in
        [("apt-get", "apt-get install -y g++"), ("dnf", "dnf install -y gcc-c++"), ("pacman", "pacman -S --needed gcc")]
    {
        let fake = Fake::new().python(CUDA_TORCH).program(manager, "");
        for name in ["c++", "cpu/cpp"] {
            let row = fake.row(name);
            assert_eq!(row.status, Status::Missing);
            assert!(row.mend.as_ref().is_some_and(|mend| mend.ends_with(package)), "{row:?}");
        }
    }
}

#[test]
fn python_that_is_yet_to_be_made_is_no_fault() {
    let fake = Fake::new().compiler().python(r#""torch": null"#);
    let row = fake.row("python");
    assert_eq!(row.status, Status::Limited);
    assert!(row.detail.contains("the first evaluation makes one in"), "{}", row.detail);
    assert!(fake.row("cpu/cpp").detail.starts_with("not yet"));

    let row = Fake::new().program("apt-get", "").row("python");
    assert_eq!(row.status, Status::Missing);
    assert!(row.mend.unwrap().contains("python3-venv"));
}

#[test]
fn a_named_python_that_will_not_do_is_shown_with_its_command() {
    let mut fake = Fake::new().compiler().python(r#""torch": "2.3.0""#);
    fake.request.python.flag = Some(PathBuf::from("python3"));
    let row = fake.row("python");
    assert_eq!(row.status, Status::Missing);
    assert!(row.detail.contains("(named by --python) has torch 2.3.0"), "{}", row.detail);
    assert!(row.mend.unwrap().contains("python3 -m pip install --upgrade 'torch>=2.4'"));
}

#[test]
fn perf_without_counters_is_limited() {
    let perf = |answer: &str| format!("case $1 in\n--version) echo perf version 6.1;;\n*) echo '{answer}' >&2;;\nesac");
    let row = Fake::new().program("perf", &perf("<not supported>,,instructions,0,100.00,,")).row("perf");
    assert_eq!(row.status, Status::Limited);
    assert!(row.detail.contains("no hardware counters"), "{}", row.detail);
    let row = Fake::new().program("perf", &perf("1234,,instructions,0,100.00,,")).row("perf");
    assert_eq!(row.status, Status::Ok);
    assert!(row.detail.contains("hardware counters work"), "{}", row.detail);
}

#[test]
fn a_tool_in_its_vendors_folder_gets_a_path() {
    let fake = Fake::new();
    let ncu = fake.folder.path().join("root/usr/local/cuda/bin/ncu");
    script(&ncu, "echo 'NVIDIA (R) Nsight Compute Command Line Profiler'\necho 'Version 2025.3.0.0'");
    let row = fake.row("ncu");
    assert_eq!(row.status, Status::Limited);
    assert!(row.detail.starts_with("Version 2025.3.0.0 at "), "{}", row.detail);
    let folder = ncu.parent().unwrap().display();
    assert_eq!(row.mend, Some(format!("export PATH={folder}:\"$PATH\"")));
}

#[test]
fn programs_that_hang_or_fail_are_limited_and_cost_one_limit() {
    let mut fake = Fake::new().python(CUDA_TORCH).compiler();
    fake.request.limit = Duration::from_secs(1);
    for name in ["nvcc", "perf", "ncu", "nvidia-smi"] {
        fake = fake.program(name, "sleep 60");
    }
    fake = fake.program("cuobjdump", "echo no licence >&2; exit 9");
    let started = Instant::now();
    let rows = diagnose(&fake.request);
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    for name in ["nvcc", "perf", "cuobjdump"] {
        let row = rows.iter().find(|row| row.name == name).unwrap();
        assert!(row.status == Status::Limited && row.detail.contains("does not run"), "{row:?}");
    }
}

#[test]
fn sandbox_rows_are_passed_through() {
    let mut fake = Fake::new();
    let row = Row::new(Section::Sandbox, "namespaces", Status::Limited, "not allowed");
    fake.request.sandbox = vec![row.clone().mended_by(Some("do this".to_owned()))];
    assert_eq!(fake.row("namespaces").mend.as_deref(), Some("do this"));
}

#[test]
fn a_forbidden_namespace_has_its_setting() {
    let fake = Fake::new().file("proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1\n");
    let root = fake.folder.path().join("root");
    assert_eq!(
        user_namespace_mend(&root).as_deref(),
        Some("sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0")
    );
    assert_eq!(user_namespace_mend(Path::new("/nonexistent")), None);
}

const NVCC: &str = "echo 'nvcc: NVIDIA (R) Cuda compiler driver'\necho 'release 13.0, V13.0.48'";

#[test]
fn nvcc_is_found_where_the_runtime_finds_it() {
    let mut fake = Fake::new();
    let root = fake.folder.path().to_owned();
    let wheel = script(&root.join("site/nvidia/cu13/bin/nvcc"), NVCC);
    fake = fake.python(&format!(r#"{CUDA_TORCH}, "nvcc": "{}""#, wheel.display()));
    let place = |fake: &Fake| fake.row("nvcc").detail.strip_prefix("release 13.0, V13.0.48 at ").unwrap().to_owned();
    assert_eq!(place(&fake), wheel.display().to_string());
    let toolkit = script(&root.join("root/usr/local/cuda/bin/nvcc"), NVCC);
    assert_eq!(place(&fake), toolkit.display().to_string());
    assert_eq!(fake.row("nvcc").status, Status::Ok, "off the search path is no fault");
    let home = script(&root.join("home/bin/nvcc"), NVCC);
    fake.request.cuda_homes = vec![root.join("nothing"), root.join("home")];
    assert_eq!(place(&fake), home.display().to_string());
    let fake = fake.program("nvcc", NVCC);
    assert_eq!(place(&fake), root.join("path/nvcc").display().to_string());
    let mut fake = fake;
    let named = script(&root.join("named"), NVCC);
    fake.request.nvcc = Some(named.clone());
    assert_eq!(place(&fake), named.display().to_string());
}

#[test]
fn cuda_without_its_compiler_names_the_wheels_that_fit_torch() {
    let fake = Fake::new().python(CUDA_TORCH).compiler().program("apt-get", "");
    let row = fake.row("nvidia/cuda");
    assert_eq!((row.status, row.detail.as_str()), (Status::Missing, "not available: neither nvcc nor NVRTC"));
    let wheels = "pip install --upgrade 'nvidia-cuda-nvcc==13.0.*' 'nvidia-cuda-crt==13.0.*' 'nvidia-nvvm==13.0.*' nvidia-cuda-cccl";
    assert!(row.mend.unwrap().ends_with(wheels));
    let older = CUDA_TORCH.replace(r#""cuda": "13.0""#, r#""cuda": "12.8""#);
    let fake = Fake::new().python(&older).compiler().program("apt-get", "");
    assert!(fake.row("nvcc").mend.unwrap().ends_with("apt-get install -y nvidia-cuda-toolkit"));

    let nvrtc = format!(r#"{CUDA_TORCH}, "nvrtc": "/site/libnvrtc.so.13""#);
    let row = Fake::new().python(&nvrtc).compiler().gpu().row("nvidia/cuda");
    assert_eq!(row.status, Status::Limited);
    assert_eq!(row.detail, "measured on NVIDIA H200; kernels through NVRTC and PTX only, since nvcc is missing");
    assert!(row.mend.unwrap().contains("nvidia-cuda-nvcc"));
}

#[test]
fn cuda_and_cute_measure_on_a_gpu_and_compile_without() {
    let all = format!(r#"{CUDA_TORCH}, "nvrtc": "/site/libnvrtc.so.13", "cute": "4.8.1""#);
    let here = || Fake::new().python(&all).compiler().program("nvcc", NVCC);
    for target in ["nvidia/cuda", "nvidia/cute"] {
        let row = here().gpu().row(target);
        assert_eq!((row.status, row.detail.as_str()), (Status::Ok, "measured on NVIDIA H200"));
        let row = here().row(target);
        assert_eq!((row.status, row.mend), (Status::Limited, None));
        assert!(row.detail.starts_with("compiled") && row.detail.ends_with("no NVIDIA GPU here"), "{}", row.detail);
    }
    assert_eq!(here().row("cute").detail, "4.8.1");
    assert_eq!(here().row("nvrtc").detail, "/site/libnvrtc.so.13");
    let row = Fake::new().python(CUDA_TORCH).gpu().row("nvidia/cute");
    assert_eq!(row.status, Status::Missing);
    assert!(row.mend.unwrap().ends_with("pip install --upgrade nvidia-cutlass-dsl"));
}

#[test]
fn the_driver_is_there_not_loaded_or_not_needed() {
    let line =
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  Sun Jul 27 07:19:27 UTC 2025\nGCC version: 12";
    let row = Fake::new().file("proc/driver/nvidia/version", line).row("nvidia driver");
    assert_eq!((row.status, row.detail.as_str()), (Status::Ok, "580.65.06"));
    let row = Fake::new().row("nvidia driver");
    assert_eq!((row.status, row.mend), (Status::Missing, None));
    let device = "sys/bus/pci/devices/0000:01:00.0";
    let fake = Fake::new().file(&format!("{device}/vendor"), "0x10de\n").file(&format!("{device}/class"), "0x030200\n");
    let row = fake.program("apt-get", "").row("nvidia driver");
    assert!(row.detail.contains("its driver is not loaded"), "{}", row.detail);
    assert!(row.mend.unwrap().ends_with("apt-get install -y nvidia-driver"));
}
