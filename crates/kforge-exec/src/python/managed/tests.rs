use super::super::testing::{Recorder, machine, python, script};
use super::super::{Silent, ensure, find};
use super::*;

/// How the fake pip behaves.
#[derive(Clone, Copy, PartialEq)]
enum Pip {
    /// Only the default index answers.
    DefaultIndex,
    /// Both do.
    BothIndexes,
    /// The CPU index answers, and fails halfway.
    BrokenCpuIndex,
    /// Nothing answers.
    Offline,
}

/// A base interpreter whose `venv` makes a fake environment, with a fake pip in it that "installs" torch by leaving
/// a file that the import test looks for.
fn fake_base(folder: &Path, pip: Pip) {
    let facts = r#"{"version": "3.12.1", "torch": "2.11.0+cpu", "numpy": "2.4.6"}"#;
    let answer =
        |works: bool| if works { "echo Collecting torch; : > $0.ok" } else { "echo cannot connect >&2; exit 1" };
    let inner = [
        format!("echo \"$@\" >> {}", folder.join("pip.log").display()),
        "case \"$*\" in".to_owned(),
        format!("*'-m pip'*'index versions'*) {};;", answer(matches!(pip, Pip::BothIndexes | Pip::BrokenCpuIndex))),
        format!("*'-m pip'*'--index-url'*) {};;", answer(pip == Pip::BothIndexes)),
        format!("*'-m pip'*) {};;", answer(pip != Pip::Offline)),
        "*'import numpy'*) test -e $0.ok;;".to_owned(),
        format!("*) echo 'kforge-probe {facts}';;\nesac"),
    ];
    let inner = script(&folder.join("inner"), &inner.join("\n"));
    let base = [
        "case \"$*\" in".to_owned(),
        "*'-m venv'*) for last; do :; done".to_owned(),
        format!("mkdir -p $last/bin; cp {} $last/bin/python;;", inner.display()),
        r#"*) echo 'kforge-probe {"version": "3.12.1", "venv": true}';;"#.to_owned(),
        "esac".to_owned(),
    ];
    script(&folder.join("path/python3"), &base.join("\n"));
}

fn log(folder: &Path) -> String {
    fs::read_to_string(folder.join("pip.log")).unwrap()
}

#[test]
fn it_is_made_once_and_then_found() {
    let (folder, request) = machine();
    fake_base(folder.path(), Pip::DefaultIndex);
    let progress = Recorder::default();
    let env = ensure(&request, &progress).unwrap();
    assert_eq!((env.source, env.torch.as_str()), (PythonSource::Managed, "2.11.0+cpu"));
    let messages = progress.messages().join("\n");
    for said in [
        "this is done once",
        "torch, numpy, ninja, setuptools (default build) with pip: about",
        "GB free",
        "made Python",
    ] {
        assert!(messages.contains(said), "{said}: {messages}");
    }
    assert!(progress.steps().iter().any(|step| step.starts_with("Collecting torch (")), "{:?}", progress.steps());
    assert_eq!(log(folder.path()).matches(" install ").count(), 1, "{}", log(folder.path()));

    let again = Recorder::default();
    assert_eq!(ensure(&request, &again).unwrap(), env);
    assert!(again.messages().is_empty(), "{:?}", again.messages());
    assert_eq!(log(folder.path()).matches(" install ").count(), 1);
}

#[cfg(target_os = "linux")]
#[test]
fn the_smaller_build_is_taken_where_there_is_no_accelerator() {
    let (folder, request) = machine();
    fake_base(folder.path(), Pip::BothIndexes);
    let progress = Recorder::default();
    ensure(&request, &progress).unwrap();
    assert!(progress.messages().join("\n").contains("(CPU build) with pip: about 0.8 GB"), "{:?}", progress.messages());
    let log = log(folder.path());
    assert!(log.contains(&format!("--index-url {CPU_INDEX} torch>=2.4\n")), "{log}");
    assert!(log.contains("off numpy ninja setuptools\n"), "{log}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_broken_cpu_index_is_no_obstacle() {
    let (folder, request) = machine();
    fake_base(folder.path(), Pip::BrokenCpuIndex);
    let progress = Recorder::default();
    ensure(&request, &progress).unwrap();
    assert!(progress.messages().join("\n").contains("(cannot connect); taking the default build"));
    assert!(log(folder.path()).contains("off torch>=2.4 numpy ninja setuptools\n"));
}

#[test]
fn without_its_marker_it_is_made_anew() {
    let (folder, request) = machine();
    fake_base(folder.path(), Pip::DefaultIndex);
    let env = ensure(&request, &Silent).unwrap();
    let home = env.executable.parent().unwrap().parent().unwrap();
    fs::remove_file(home.join(READY)).unwrap();
    fs::write(home.join("stale"), "").unwrap();
    assert!(find(&request).unwrap().env.is_none());
    assert_eq!(ensure(&request, &Silent).unwrap(), env);
    assert!(!home.join("stale").exists() && home.join(READY).exists());
}

#[test]
fn a_failure_says_why_and_leaves_nothing() {
    let (folder, request) = machine();
    fake_base(folder.path(), Pip::Offline);
    let error = ensure(&request, &Silent).unwrap_err().to_string();
    for said in ["cannot install torch", "cannot connect", "PIP_INDEX_URL", "--python"] {
        assert!(error.contains(said), "{said}: {error}");
    }
    let left: Vec<_> = fs::read_dir(folder.path().join("cache/python")).unwrap().flatten().collect();
    assert_eq!(left.len(), 1, "only the lock: {left:?}");
}

#[test]
fn a_full_disk_is_refused_with_numbers() {
    let (folder, mut request) = machine();
    fake_base(folder.path(), Pip::DefaultIndex);
    request.free_space = |_| Ok(123_456);
    let error = ensure(&request, &Silent).unwrap_err().to_string();
    assert!(error.contains("123456 are free") && error.contains("KFORGE_CACHE_DIR"), "{error}");
    assert!(!log(folder.path()).contains(" install "));
}

#[test]
fn two_processes_make_it_once() {
    let (folder, request) = machine();
    fake_base(folder.path(), Pip::DefaultIndex);
    let root = request.cache.as_ref().unwrap().create("python").unwrap();
    let held = lock(&root, &Silent).unwrap();
    let second = std::thread::spawn({
        let request = request.clone();
        move || {
            let progress = Recorder::default();
            (ensure(&request, &progress).unwrap(), progress.messages())
        }
    });
    // While the second one waits, the first finishes.
    std::thread::sleep(Duration::from_millis(500));
    let base = newest_base(&request).unwrap();
    let installer = Installer { uv: Vec::new(), folder: root.join("3.12-first"), base: base.executable };
    let first = fill(&request, &installer, &held, &Silent).unwrap();
    drop(held);
    let (env, messages) = second.join().unwrap();
    assert_eq!(env, first);
    assert!(messages.iter().any(|text| text.contains("waiting")), "{messages:?}");
    assert_eq!(log(folder.path()).matches(" install ").count(), 1);
}

#[test]
fn a_cpu_build_does_not_serve_a_machine_with_an_accelerator() {
    let (folder, request) = machine();
    fake_base(folder.path(), Pip::DefaultIndex);
    ensure(&request, &Silent).unwrap();
    assert_eq!(existing(&request).len(), 1);
    fs::create_dir_all(folder.path().join("root/dev")).unwrap();
    fs::write(folder.path().join("root/dev/nvidia0"), "").unwrap();
    assert!(existing(&request).is_empty());
    assert_ne!(folder_name("3.12.1", true), folder_name("3.12.1", false));
}

#[test]
fn no_base_names_the_package() {
    let (folder, request) = machine();
    script(&folder.path().join("path/apt-get"), "");
    let error = ensure(&request, &Silent).unwrap_err().to_string();
    assert!(error.contains("no Python 3.10") && error.contains("apt-get install -y python3 python3-venv"), "{error}");
    script(&folder.path().join("path/python3"), r#"echo 'kforge-probe {"version": "3.11.2"}'"#);
    let error = ensure(&request, &Silent).unwrap_err().to_string();
    assert!(error.contains("has no venv module"), "{error}");
}

#[test]
fn the_newest_base_is_taken() {
    let (folder, mut request) = machine();
    request.path.push(folder.path().join("second"));
    python(&folder.path().join("path/python3"), None, None);
    let json = r#"{"version": "3.13.0", "venv": true}"#;
    let newest = script(&folder.path().join("second/python3.13"), &format!("echo 'kforge-probe {json}'"));
    script(&folder.path().join("path/python3.13"), "exit 127");
    assert_eq!(newest_base(&request).unwrap().executable, newest);
}

/// Really makes one: minutes and gigabytes. `KFORGE_TEST_MANAGED_ENV=1` asks for it; uv is used where it is on
/// PATH.
#[test]
fn a_real_environment_can_be_made() {
    if std::env::var_os("KFORGE_TEST_MANAGED_ENV").is_none_or(|value| value != "1") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut request = PythonRequest::from_environment(None);
    request.cache = Some(crate::cache::CacheDirs::new(folder.path()));
    let started = Instant::now();
    let progress = Recorder::default();
    let env = make(&request, &progress).unwrap();
    println!("{}\nsteps: {:#?}", progress.messages().join("\n"), progress.steps());
    println!("{} s\n{env:#?}", started.elapsed().as_secs());
    assert_eq!(find_managed(&request).unwrap(), env);
}
