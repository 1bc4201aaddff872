//! Who is better where speedups cannot tell.

use super::*;

fn best_of(lines: &[&str]) -> (u32, Vec<Option<u32>>) {
    let rules = Rules { iterations: lines.len() as u32, plateau: 0, ..rules() };
    let history = whole(&rules, Story::new(lines));
    let met = history.attempts.iter().map(|attempt| attempt.duel.as_ref().map(|met| met.against)).collect();
    (history.best().unwrap().id, met)
}

#[test]
fn a_kernel_that_only_seems_faster_does_not_become_the_best() {
    assert_eq!(best_of(&["speedup 1.50", "speedup 1.52\n# really 1.45"]), (1, vec![None, Some(1)]));
    assert_eq!(best_of(&["speedup 1.50", "speedup 1.52\n# really 1.505"]).0, 1, "equal");
}

#[test]
fn one_that_seems_slower_may_win() {
    let (best, met) = best_of(&["speedup 1.50", "speedup 1.48\n# really 1.60", "speedup 1.49\n# really 1.55"]);
    assert_eq!((best, met), (2, vec![None, Some(1), Some(2)]));
}

#[test]
fn what_is_clear_needs_no_duel() {
    assert_eq!(best_of(&["speedup 1.50", "speedup 2.50", "speedup 1.00"]), (2, vec![None; 3]));
}

#[test]
fn a_duel_that_cannot_be_held_leaves_it_to_the_speedups() {
    assert_eq!(best_of(&["speedup 1.50", "speedup 1.52\n# no duel"]), (2, vec![None, Some(1)]));
}

#[test]
fn a_best_that_is_disproved_takes_its_duels_with_it() {
    let lines = ["speedup 1.50", "speedup 1.52\n# really 1.60\n# again numeric", "speedup 1.53\n# really 1.40"];
    assert_eq!(best_of(&lines).0, 3, "it has never met the first");
}

#[test]
fn equal_kernels_are_no_progress() {
    let lines = ["speedup 1.50", "speedup 1.53\n# really 1.50", "speedup 1.55\n# really 1.50", "speedup 9.0"];
    let rules = Rules { iterations: 4, plateau: 2, ..rules() };
    let history = whole(&rules, Story::new(&lines));
    assert_eq!((history.attempts.len(), history.stopped.unwrap().0), (3, StopReason::Plateau));
}

#[test]
fn later_prompts_say_who_lost_and_by_how_much() {
    let (prompts, rules) = (prompts(), Rules { iterations: 4, ..rules() });
    let folder = tempfile::tempdir().unwrap();
    let lines = ["speedup 1.50", "speedup 1.52\n# really 1.30", "speedup 1.00", "speedup 1.51\n# really 1.50"];
    let model = Arc::new(Story::new(&lines));
    go(folder.path(), &setup(&rules, &model, &prompts), &UNDISTURBED).unwrap();
    let prompt = std::fs::read_to_string(folder.path().join("sums/story/04/prompt.md")).unwrap();
    let line = |number: u32| {
        let start = format!("- iteration {number}: ");
        prompt.lines().find(|line| line.starts_with(&start)).unwrap_or_default().to_owned()
    };
    assert!(line(1).contains("1.500x the fastest baseline (") && line(1).contains(" us against "), "{}", line(1));
    assert!(line(2).contains("; slower than iteration 1, 0.") && line(2).contains("x beside it ("), "{}", line(2));
    assert!(line(3).contains("; slower than iteration 1, 0.667x"), "{}", line(3));
}
