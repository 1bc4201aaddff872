//! Every recording that kforge brings along, through the whole loop: the prompts of today are rendered, and the replies
//! hold candidates and advice that are found and that the source rules allow.

use super::*;
use crate::{driver::scripted::play, prompt::Edits, run::event::Advice, target};
use kforge_models::{Recorded, Replay};
use kforge_types::Target;

const NAME: &str = "recorded";
/// How many there are, or more: fewer mean that some were lost.
const RECORDINGS: usize = 5;

#[test]
fn every_recording_is_replayed_to_its_end() {
    let replay = Arc::new(Replay::open(Path::new(env!("CARGO_MANIFEST_DIR")).join("recordings")).unwrap().named(NAME));
    let recorded = replay.problems();
    assert!(recorded.len() >= RECORDINGS, "{recorded:?}");
    for one in &recorded {
        replays_to_its_end(&replay, one);
    }
}

fn replays_to_its_end(replay: &Arc<Replay>, one: &Recorded) {
    let what = format!("{} on {}", one.problem, one.target);
    let replies = |role: &str| replay.replies(&one.problem_hash, &one.target, role);
    let task = task(one);
    let prompts = Prompts::new(&target::texts(&task.target).unwrap(), Edits::default()).unwrap();
    let pack = target::find(&task.target).unwrap();
    let guard = kforge_guard::Settings { imports: Some(pack.imports.clone()), ..Default::default() };
    let material = Material { guard, arch: pack.default_arch.clone(), ..material() };
    let rules = Rules { iterations: replies("generator"), ..rules() };
    let setup =
        Setup { rules: &rules, model: replay.clone(), hooks: &[], params: Params::default(), prompts: &prompts };
    let folder = tempfile::tempdir().unwrap();
    let history = play(folder.path(), &setup, &task, &material, &UNDISTURBED).unwrap();

    assert_eq!(history.stopped.as_ref().unwrap().0, StopReason::Iterations, "{what}: {:?}", history.stopped);
    assert!(history.finished && history.best().is_some() && history.confirmed.is_some(), "{what}");
    let calls = |role: Role| history.attempts.iter().flat_map(|a| &a.calls).filter(|call| call.role == role).count();
    assert_eq!(history.attempts.len(), replies("generator") as usize, "{what}");
    assert_eq!(calls(Role::Generator), replies("generator") as usize, "{what}");
    assert_eq!(calls(Role::Analyst), replies("analyst") as usize, "{what}: an answer could not be read");
    for attempt in &history.attempts {
        let what = format!("{what}, attempt {}", attempt.id);
        let judged = attempt.judged.as_ref().unwrap();
        assert!(attempt.is_correct(), "{what}: {}", judged.result.reason);
        assert!(judged.source.as_ref().is_some_and(|source| source.contains("class NewModel(")), "{what}");
        assert!(!judged.idea.is_empty(), "{what}");
        let advised = matches!(attempt.advice.advice(), Some(Advice::Recommendation(_)));
        assert!(advised || attempt.id == 1, "{what}: {:?}", attempt.advice);
        let prompt = folder.path().join(format!("{}/{NAME}/{:02}/prompt.md", one.problem, attempt.id));
        assert!(std::fs::read_to_string(prompt).unwrap().contains(task.source.trim()), "{what}");
    }
}

/// The example that was recorded. A recording of another text answers nobody.
fn task(one: &Recorded) -> Task {
    let target: Target = one.target.parse().unwrap();
    let examples = if target.vendor == "cpu" { "examples" } else { "examples/gpu" };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let source = std::fs::read(root.join(examples).join(&one.problem).join("problem.py")).unwrap();
    let hash = kforge_types::content_hash(&[&source]);
    assert_eq!(hash, one.problem_hash, "the problem {} is not the recorded one", one.problem);
    let source = String::from_utf8(source).unwrap();
    Task { name: one.problem.clone(), file: "problem.py".to_owned(), hash, source, target }
}
