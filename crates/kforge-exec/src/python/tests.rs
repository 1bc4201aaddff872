use super::testing::{Recorder, good, machine, python, script};
use super::*;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Instant;

fn found(request: &PythonRequest) -> PythonEnv {
    find(request).unwrap().env.unwrap()
}

#[test]
fn the_order_of_preference_holds() {
    let (folder, mut request) = machine();
    let at = |name: &str| folder.path().join(name);
    good(&at("path/python3"));
    assert_eq!(found(&request).source, PythonSource::Path);

    request.environments = vec![at("venv")];
    good(&at("venv/bin/python"));
    assert_eq!(found(&request).source, PythonSource::VirtualEnv);

    request.variable = Some(good(&at("variable/python")));
    assert_eq!(found(&request).source, PythonSource::Variable);

    request.flag = Some(good(&at("flag/python")));
    let env = found(&request);
    assert_eq!((env.source, env.executable), (PythonSource::Flag, at("flag/python")));
    assert_eq!((env.version.as_str(), env.torch.as_str()), ("3.12.1", "2.11.0+cu130"));
}

#[test]
fn those_without_torch_are_passed_over_and_said() {
    let (folder, mut request) = machine();
    request.environments = vec![folder.path().join("venv")];
    python(&folder.path().join("venv/bin/python"), None, Some("2.4.6"));
    python(&folder.path().join("path/python3"), Some("2.11.0"), None);
    let last = good(&folder.path().join("path/python"));
    let progress = Recorder::default();
    assert_eq!(ensure(&request, &progress).unwrap().executable, last);
    let reasons: Vec<String> = find(&request).unwrap().rejected.iter().map(ToString::to_string).collect();
    assert!(reasons[0].ends_with("(active environment) has no torch"), "{reasons:?}");
    assert!(reasons[1].ends_with("(on PATH) has no numpy"), "{reasons:?}");
    assert_eq!(progress.messages(), [format!("{}; not used", reasons[0])]);
}

#[test]
fn a_named_one_without_torch_is_an_error_with_a_command() {
    let (folder, mut request) = machine();
    good(&folder.path().join("path/python3"));
    let named = python(&folder.path().join("named/python"), None, None);
    request.variable = Some(named.clone());
    let error = find(&request).unwrap_err().to_string();
    let named = named.display();
    assert!(error.contains("named by KFORGE_PYTHON") && error.contains("has no torch and numpy"), "{error}");
    assert!(
        error.contains(&format!("`{named} -m pip install --upgrade 'torch>=2.4' numpy ninja setuptools`")),
        "{error}"
    );
    assert!(error.contains("unset KFORGE_PYTHON"), "{error}");
}

#[test]
fn a_named_one_that_is_too_old_is_an_error() {
    let (folder, mut request) = machine();
    let old = folder.path().join("old");
    request.flag = Some(script(&old, r#"echo 'kforge-probe {"version": "3.9.18"}'"#));
    let error = find(&request).unwrap_err().to_string();
    assert!(error.contains("is Python 3.9.18, which is older than 3.10"), "{error}");

    request.flag = Some(python(&old, Some("2.3.1"), Some("1.26")));
    let error = find(&request).unwrap_err().to_string();
    assert!(error.contains("torch 2.3.1, which is older than 2.4") && error.contains("pip install"), "{error}");
}

#[test]
fn a_hanging_interpreter_costs_the_limit_and_no_more() {
    let (folder, mut request) = machine();
    request.probe_limit = Duration::from_millis(300);
    request.flag = Some(script(&folder.path().join("hangs"), "sleep 60"));
    let started = Instant::now();
    let error = find(&request).unwrap_err().to_string();
    assert!(started.elapsed() < Duration::from_secs(5));
    assert!(error.contains("no answer within 0.3 s"), "{error}");
}

#[test]
fn garbage_is_quoted() {
    let (folder, mut request) = machine();
    for (body, said) in [
        ("echo hello world", "hello world"),
        ("echo 'kforge-probe {'", "EOF"),
        ("echo kforge-probe '{}'", "version"),
        ("echo Unknown option: -I >&2; exit 2", "Unknown option: -I"),
    ] {
        request.flag = Some(script(&folder.path().join("garbage"), body));
        let error = find(&request).unwrap_err().to_string();
        assert!(error.contains("does not answer like a Python") && error.contains(said), "{error}");
    }
}

#[test]
fn a_file_that_is_no_program_is_an_error() {
    let (folder, mut request) = machine();
    let file = good(&folder.path().join("file"));
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    request.flag = Some(file);
    assert!(find(&request).unwrap_err().to_string().contains("is not an executable file"));
    request.flag = Some(folder.path().join("nothing"));
    assert!(find(&request).unwrap_err().to_string().contains("does not exist"));
}

#[test]
fn a_name_and_a_folder_can_be_given() {
    let (folder, mut request) = machine();
    let program = good(&folder.path().join("path/python3.13"));
    request.flag = Some(PathBuf::from("python3.13"));
    assert_eq!(found(&request).executable, program);
    let program = good(&folder.path().join("env/bin/python"));
    request.flag = Some(folder.path().join("env"));
    assert_eq!(found(&request).executable, program);
}

#[test]
fn torch_in_the_user_site_is_explained() {
    let (folder, mut request) = machine();
    let json = r#"{"version": "3.12.1", "numpy": "2.0", "pip": true, "user_site": "/home/u/.local/lib"}"#;
    request.flag = Some(script(&folder.path().join("python"), &format!("echo 'kforge-probe {json}'")));
    let error = find(&request).unwrap_err().to_string();
    assert!(error.contains("/home/u/.local/lib belongs to the user site"), "{error}");
}

#[test]
fn the_environment_is_read_through_the_constructor() {
    let request = PythonRequest::resolve(None, |name| match name {
        "PATH" => Some("/a::here:/b".into()),
        "CONDA_PREFIX" => Some("/conda".into()),
        "KFORGE_PYTHON" => Some("".into()),
        "KFORGE_CACHE_DIR" => Some("/cache".into()),
        _ => None,
    });
    assert_eq!(request.path, [PathBuf::from("/a"), PathBuf::from("/b")]);
    assert_eq!(request.environments, [PathBuf::from("/conda")]);
    assert_eq!(request.variable, None);
    assert_eq!(request.cache, Some(CacheDirs::new("/cache")));
}

#[test]
fn versions_compare_as_numbers() {
    assert_eq!(major_minor("2.11.0a0+git"), Some((2, 11)));
    assert_eq!(major_minor("3.14.0rc1"), Some((3, 14)));
    assert_eq!(major_minor("dev"), None);
}

/// The real interpreter of this machine, whatever it has, must answer the probe.
#[test]
fn the_probe_runs_on_a_real_interpreter() {
    let request = PythonRequest::from_environment(None);
    let Some(python) = crate::process::find_program("python3", &request.path) else { return };
    let facts = match probe::probe(&python, Duration::from_secs(10)) {
        Err(Unusable::TooOld(_)) => return,
        answer => answer.unwrap(),
    };
    assert!(facts.executable.is_absolute() && !facts.prefixes.is_empty(), "{facts:?}");
    assert!(facts.prefixes.iter().all(|folder| folder.is_dir()), "{facts:?}");
}
