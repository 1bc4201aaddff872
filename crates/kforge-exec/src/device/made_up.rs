//! A device for tests: torch's CPU, as if it had memory of its own. It shows what another device takes, which is this module
//! and a package in the harness (`harness/tests/made_up`), and that judging one needs no change anywhere else.

use super::{Device, Examined, Floor, Policy, Profiler, generic};
use crate::{
    error::Result,
    referee::{Opened, Referee},
    sandbox::Limits,
};
use kforge_types::DeviceInfo;
use serde::Deserialize;

pub(super) const KIND: &str = "made_up";

static POLICY: Policy = Policy { row_us: 1500.0, driver_bytes: 0, ..generic::POLICY };

#[derive(Default, Deserialize)]
struct Facts {
    name: String,
    places: usize,
}

pub(super) struct MadeUp(Facts);

impl MadeUp {
    pub(super) fn new() -> Self {
        Self(Facts::default())
    }
}

impl Device for MadeUp {
    fn policy(&self) -> &'static Policy {
        &POLICY
    }

    fn lock_name(&self) -> &'static str {
        "made up"
    }

    fn examine(&mut self, referee: &mut Referee, _opened: &Opened) -> Result<Examined> {
        self.0 = referee.device()?;
        let staged = "there is no such device".to_owned();
        Ok(Examined { places: self.0.places, staged, compulsory: (0.0, String::new()) })
    }

    fn info(&self, threads: usize) -> DeviceInfo {
        DeviceInfo { name: self.0.name.clone(), threads, ..DeviceInfo::default() }
    }

    fn large_bytes(&self) -> u64 {
        64 << 20
    }

    fn allow(&self, limits: &mut Limits) {
        KIND.clone_into(&mut limits.device);
    }

    fn describe_cold(&self) -> String {
        "a buffer read and written".to_owned()
    }

    fn floor(&self, _time_us: f64, _opened: &Opened, _examined: &Examined) -> Floor {
        Floor { possible: true, decides: false, detail: "not applied: nothing is known".to_owned() }
    }

    fn recover(&mut self, _referee: &mut Referee) -> Result<()> {
        Ok(())
    }

    fn profiler(&self) -> Profiler<'_> {
        Profiler::Missing("there is no profiler for a device that is made up".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        device::Place,
        judge::{BaselineChoice, EvalOptions, Observer, Session},
    };
    use kforge_types::{Contract, Evidence, Kind, SandboxLevel, State};
    use serde_json::json;
    use std::{
        path::{Path, PathBuf},
        time::Duration,
    };

    struct Silent;

    impl Observer for Silent {
        fn stage(&self, _text: &str) {}
    }

    fn options(cache: &Path) -> EvalOptions {
        EvalOptions {
            python: std::env::var_os("KFORGE_PYTHON").map_or_else(|| "python3".into(), PathBuf::from),
            cache: cache.to_owned(),
            target: "cpu/cpp".parse().unwrap(),
            place: Place::Device { kind: KIND.to_owned(), name: "made up".to_owned() },
            arch: "native".to_owned(),
            toolchains: json!({"cpp": {
                "compilers": ["c++", "g++", "clang++"],
                "command": ["{compiler}", "-shared", "-fPIC", "-std=c++17", "{flags}", "{source}", "-o", "{output}"],
                "default_flags": ["-O3", "-fopenmp"],
                "suffix": ".cpp",
                "device": "cpu",
                "pass_stream": false,
            }}),
            contract: Contract::default(),
            baselines: BaselineChoice::Eager,
            incumbents: Vec::new(),
            threads: 2,
            timeout: Duration::from_mins(2),
            problem_timeout: Duration::from_mins(2),
            time_budget: Duration::from_secs(2),
            fresh: true,
            kept_baselines: false,
            redraws: 0,
            no_timing: false,
            require_idle: false,
            require_sandbox: SandboxLevel::None,
            namespaces: true,
            memory_bytes: 4 << 30,
        }
    }

    /// The packages of the device, beside those of others.
    fn install(cache: &Path) {
        let harness = crate::harness::unpack(cache).unwrap().join("kforge_harness");
        let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("harness/tests/made_up");
        for side in ["shared", "trusted", "hostile"] {
            let into = harness.join(side).join(KIND);
            std::fs::create_dir_all(&into).unwrap();
            for file in std::fs::read_dir(own.join(side)).unwrap().flatten() {
                if file.path().is_file() {
                    std::fs::copy(file.path(), into.join(file.file_name())).unwrap();
                }
            }
        }
    }

    #[test]
    fn candidates_are_judged_on_a_device_that_only_this_module_knows() {
        let cache = tempfile::tempdir().unwrap();
        install(cache.path());
        let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus");
        let source = |name: &str| std::fs::read_to_string(corpus.join(name)).unwrap();
        let problem = corpus.join("problems/row_softmax.py");
        let mut session = Session::open(options(cache.path()), &problem, &Silent).unwrap();

        let honest = session.judge("honest.py", &source("honest/softmax_online.py"), &Silent).unwrap();
        assert_eq!(honest.state, State::Correct, "{}: {:?}", honest.reason, honest.checks);
        assert_eq!(honest.evidence, Evidence::Measured);
        assert_eq!(honest.device.name, "a device that is made up");
        assert!(honest.speedup.is_some_and(|speedup| speedup > 0.0), "{:?}", honest.checks);
        assert!(honest.provisional_reason.contains("copies through the host"), "{}", honest.provisional_reason);
        assert!(
            honest
                .checks
                .iter()
                .any(|check| check.name == "device memory" && check.detail.contains("there is no such device"))
        );

        let wrong = session.judge("cheat.py", &source("cheats/returns_the_mean.py"), &Silent).unwrap();
        assert_eq!((wrong.state, wrong.kind), (State::Mismatch, Some(Kind::Numeric)), "{}", wrong.reason);
        let writes = session.judge("cheat.py", &source("cheats/scratch_in_its_input.py"), &Silent).unwrap();
        assert_eq!((writes.state, writes.kind), (State::Mismatch, Some(Kind::InputMutated)), "{}", writes.reason);
    }
}
