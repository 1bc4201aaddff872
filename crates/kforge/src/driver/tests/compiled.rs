//! Candidates that were compiled and never run: no winners, and nothing to search on from where nothing runs.

use super::*;
use crate::run::event::Pass;

#[test]
fn a_kernel_that_was_never_run_ends_the_search_and_wins_nothing() {
    for measured in [true, false] {
        let lines = ["kind compiler", "compiled", "speedup 2.0"];
        let history = whole(&Rules { measured, iterations: 9, ..rules() }, Story::new(&lines));
        let (reason, text) = history.stopped.clone().unwrap();
        assert_eq!((reason, history.attempts.len()), (StopReason::Exhausted, 2), "{text}");
        assert!(text.contains("attempt 2 was compiled but never run"), "{text}");
        assert!(history.best().is_none() && history.confirmed.is_none() && history.attempts[1].score().is_none());
    }
}

#[test]
fn a_run_goes_on_from_what_was_compiled_where_it_can_be_run() {
    let prompts = prompts();
    let folder = tempfile::tempdir().unwrap();
    let model = Arc::new(Story::new(&["compiled", "speedup 1.5"]));
    let nowhere = Rules { measured: false, iterations: 2, ..rules() };
    for _ in 0..2 {
        let first = go(folder.path(), &setup(&nowhere, &model, &prompts), &UNDISTURBED).unwrap();
        assert_eq!((first.attempts.len(), model.calls()), (1, 1), "nothing is asked again for nothing");
        assert!(first.finished && !folder.path().join("sums/best").exists());
    }
    let somewhere = Rules { measured: true, ..nowhere };
    let last = go(folder.path(), &setup(&somewhere, &model, &prompts), &UNDISTURBED).unwrap();
    let plan = &last.attempts[1].plan;
    assert_eq!((plan.pass, plan.base), (Pass::Functional, Some(1)));
    assert_eq!(last.best().unwrap().id, 2);
}

#[test]
fn a_second_judgement_that_ran_nothing_disproves_nothing() {
    let history = whole(&Rules { iterations: 1, ..rules() }, Story::new(&["speedup 1.5\n# again compiled"]));
    assert!(history.unconfirmed && history.finished && history.confirmed.is_none());
    assert_eq!(history.best().unwrap().id, 1);
}
