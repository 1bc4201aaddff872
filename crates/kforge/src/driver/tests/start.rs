//! A kernel that the user has already.

use super::*;
use crate::run::{event::Pass, history::START};

#[test]
fn it_is_judged_first_and_the_search_goes_on_from_it() {
    let rules = Rules { start: true, iterations: 2, ..rules() };
    let history = whole(&rules, Story::new(&["speedup 2.5", "speedup 1.0"]));
    let ids: Vec<u32> = history.attempts.iter().map(|attempt| attempt.id).collect();
    assert_eq!(ids, [START, 1, 2]);
    assert_eq!((history.made(), history.best().unwrap().id), (2, 1), "it is none of the iterations");
    let (given, first) = (&history.attempts[0], &history.attempts[1]);
    assert!(given.is_correct() && given.calls.is_empty() && given.profile.is_some());
    assert_eq!((first.plan.pass, first.plan.base), (Pass::Optimisation, Some(START)));
}

#[test]
fn what_nobody_beats_stays_the_best() {
    for strategy in [Strategy::Refine, Strategy::Sample { samples: 2 }, Strategy::Single] {
        let rules = Rules { start: true, iterations: 2, strategy, ..rules() };
        let history = whole(&rules, Story::new(&["speedup 1.0", "kind numeric"]));
        assert_eq!((history.best().unwrap().id, history.confirmed.as_ref().unwrap().0), (START, START));
        assert!(history.attempts[1..].iter().all(|attempt| attempt.plan.base.is_some()));
    }
}

#[test]
fn a_kill_at_any_event_does_not_judge_it_twice() {
    let prompts = prompts();
    let rules = Rules { start: true, iterations: 2, ..rules() };
    for event in 1..10 {
        let folder = tempfile::tempdir().unwrap();
        let model = Arc::new(Story::new(&["speedup 2.5", "speedup 1.0"]));
        let doomed = Doomed { after: Some(event) };
        let setup = setup(&rules, &model, &prompts);
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| go(folder.path(), &setup, &doomed)));
        let history = go(folder.path(), &setup, &UNDISTURBED).unwrap();
        let ids: Vec<u32> = history.attempts.iter().map(|attempt| attempt.id).collect();
        assert_eq!((ids, history.best().unwrap().id), (vec![START, 1, 2], 1), "killed after event {event}");
    }
}
