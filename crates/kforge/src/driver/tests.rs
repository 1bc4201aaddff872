//! Whole runs with a scripted model and evaluator: what a kill at any event costs, and what budgets hold.

mod compiled;
mod duels;
mod recordings;
mod start;

use super::{
    Task,
    ask::Params,
    hooks::{Hook, When},
    inputs::Material,
    scripted::{Doomed, Setup, go, material, prompts, reply, rules},
};
use crate::{
    prompt::Prompts,
    run::{
        event::{Event, Role, StopReason},
        history::{Advised, Answer, History},
        journal,
    },
    search::{Rules, Strategy},
};
use kforge_models::{CallError, CallErrorKind, Model, Reply, Request, Stop, Usage, Watch};
use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

/// Answers by role and ordinal; the same request always gets the same answer.
struct Story {
    generator: Vec<Result<String, CallErrorKind>>,
    analyst: Vec<String>,
    calls: AtomicU32,
    usd: Option<f64>,
    billed: bool,
}

impl Story {
    fn new(generator: &[&str]) -> Self {
        let analyst = r#"{"bottleneck": "memory", "method": "fuse", "plan": "one pass", "expected_gain": "2x", "metrics_used": []}"#;
        Self {
            generator: generator.iter().map(|line| Ok(reply(line))).collect(),
            analyst: vec![analyst.to_owned()],
            calls: AtomicU32::new(0),
            usd: Some(0.01),
            billed: false,
        }
    }

    fn calls(&self) -> u32 {
        self.calls.load(Ordering::Relaxed)
    }
}

impl Model for Story {
    fn name(&self) -> &'static str {
        "story"
    }

    fn ask(&self, request: &Request, _watch: &dyn Watch) -> Result<Reply, CallError> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let number = request.label.ordinal as usize - 1;
        let text = match request.label.role.as_str() {
            "generator" => self.generator.get(number).or(self.generator.last()).cloned().unwrap(),
            _ if request.turns.last().is_some_and(|turn| turn.text.contains("critical_issue")) => {
                Ok(r#"{"critical_issue": "a", "why_it_matters": "b", "minimal_fix_hint": "c"}"#.to_owned())
            }
            _ => Ok(self.analyst.get(number).or(self.analyst.last()).cloned().unwrap()),
        };
        let text = text.map_err(|kind| CallError {
            kind,
            text: "the script says so".to_owned(),
            attempts: 1,
            may_be_billed: self.billed,
        })?;
        Ok(Reply {
            text,
            model: "story".to_owned(),
            stop: Stop::End,
            usage: Usage { input: Some(1000), output: Some(500), ..Usage::default() },
            cost_usd: self.usd,
            seconds: 0.0,
            attempts: 1,
            notes: Vec::new(),
        })
    }
}

fn setup<'a>(rules: &'a Rules, model: &Arc<Story>, prompts: &'a Prompts) -> Setup<'a> {
    Setup { rules, model: model.clone(), hooks: &[], params: Params::default(), prompts }
}

const UNDISTURBED: Doomed = Doomed { after: None };

fn whole(rules: &Rules, model: Story) -> History {
    let folder = tempfile::tempdir().unwrap();
    go(folder.path(), &setup(rules, &Arc::new(model), &prompts()), &UNDISTURBED).unwrap()
}

/// The journal without what a kill is allowed to change: times, who went on, and requests made once more.
fn story_of(folder: &Path) -> Vec<String> {
    let mut told: Vec<String> = Vec::new();
    for line in journal::look(folder).unwrap() {
        let mut event = serde_json::to_value(&line.event).unwrap();
        for timed in ["seconds"] {
            if let Some(object) = event.as_object_mut() {
                object.remove(timed);
            }
        }
        if let Some(judged) = event.get_mut("judged").and_then(|judged| judged.as_object_mut()) {
            judged.remove("seconds");
        }
        let text = event.to_string();
        let again = matches!(line.event, Event::Asked { .. }) && told.last() == Some(&text);
        if !matches!(line.event, Event::Resumed { .. }) && !again {
            told.push(text);
        }
    }
    told
}

#[test]
fn a_kill_at_any_event_changes_nothing_of_the_story() {
    let rules = rules();
    let prompts = prompts();
    let lines = ["kind numeric", "speedup 1.2", "kind crash", "speedup 1.6"];
    let folder = tempfile::tempdir().unwrap();
    let model = Arc::new(Story::new(&lines));
    let undisturbed = go(folder.path(), &setup(&rules, &model, &prompts), &UNDISTURBED).unwrap();
    let expected = story_of(folder.path());
    let calls = model.calls();
    assert!(expected.len() > 20, "{} events", expected.len());
    for killed_after in 0..expected.len() as u64 {
        let folder = tempfile::tempdir().unwrap();
        let model = Arc::new(Story::new(&lines));
        let setup = setup(&rules, &model, &prompts);
        let doomed = Doomed { after: Some(killed_after) };
        let killed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| go(folder.path(), &setup, &doomed)));
        assert!(killed.is_err(), "event {killed_after} never came");
        let history = go(folder.path(), &setup, &UNDISTURBED).unwrap();
        assert_eq!(story_of(folder.path()), expected, "killed after event {killed_after}");
        // A reply that was received is never asked for again. A request that had been sent is lost, and counted.
        assert_eq!(model.calls(), calls, "killed after event {killed_after}");
        assert_eq!(history.best().map(|best| best.id), undisturbed.best().map(|best| best.id));
        assert!((history.spend.usd - undisturbed.spend.usd).abs() < 1e-9);
    }
}

#[test]
fn a_request_in_flight_is_counted_as_lost() {
    let (rules, prompts) = (rules(), prompts());
    let folder = tempfile::tempdir().unwrap();
    let model = Arc::new(Story::new(&["speedup 1.2"]));
    let setup = setup(&rules, &model, &prompts);
    // Events 0, 1, 2: started, planned, asked.
    let doomed = Doomed { after: Some(2) };
    let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| go(folder.path(), &setup, &doomed)));
    let history = go(folder.path(), &setup, &UNDISTURBED).unwrap();
    assert_eq!(history.lost_calls, 1);
}

#[test]
fn a_second_process_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let _first = journal::Journal::create(folder.path()).unwrap();
    let error = journal::Journal::open(folder.path()).err().unwrap();
    assert!(error.to_string().contains("another kforge"), "{error}");
}

#[test]
fn a_torn_line_is_put_aside_and_a_newer_form_refused() {
    let (rules, prompts) = (rules(), prompts());
    let folder = tempfile::tempdir().unwrap();
    let model = Arc::new(Story::new(&["speedup 1.2"]));
    go(folder.path(), &setup(&rules, &model, &prompts), &UNDISTURBED).unwrap();
    let file = folder.path().join(journal::FILE);
    let whole = std::fs::read(&file).unwrap();
    let cut = whole.len() - 20;
    std::fs::write(&file, &whole[..cut]).unwrap();
    let (journal, lines, note) = journal::Journal::open(folder.path()).unwrap();
    assert!(note.unwrap().contains("journal.torn-1"));
    assert!(folder.path().join("journal.torn-1").exists());
    assert_eq!(lines.len() + 1, String::from_utf8_lossy(&whole).lines().count());
    drop(journal);
    go(folder.path(), &setup(&rules, &model, &prompts), &UNDISTURBED).unwrap();
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replacen("{\"v\":1", "{\"v\":9", 1)).unwrap();
    let error = format!("{:#}", journal::look(folder.path()).unwrap_err());
    assert!(error.contains("newer kforge") && error.contains("line 1"), "{error}");
    std::fs::write(&file, text.replacen("\"seq\":3", "\"seq\":4", 1)).unwrap();
    assert!(format!("{:#}", journal::look(folder.path()).unwrap_err()).contains("lines are missing"));
}

#[test]
fn a_full_disk_is_said_with_the_way_on() {
    if !Path::new("/dev/full").exists() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut journal = journal::Journal::onto(Path::new("/dev/full"), folder.path()).unwrap();
    let error = journal.append(Event::Resumed { lost: None }).unwrap_err();
    assert!(error.to_string().contains("kforge resume"), "{error}");
}

#[test]
fn a_broken_latest_is_repaired_and_then_left() {
    let mut rules = rules();
    rules.iterations = 6;
    let history =
        whole(&rules, Story::new(&["speedup 1.5", "kind numeric", "kind numeric", "kind numeric", "speedup 2.0"]));
    let bases: Vec<Option<u32>> = history.attempts.iter().map(|attempt| attempt.plan.base).collect();
    assert_eq!(bases, [None, Some(1), Some(2), Some(3), Some(1), Some(5)]);
    assert_eq!(history.best().unwrap().id, 5);
}

#[test]
fn each_strategy_makes_its_own_attempts() {
    let bases = |strategy, iterations| -> Vec<Option<u32>> {
        let rules = Rules { iterations, strategy, ..rules() };
        let lines = ["speedup 1.1", "speedup 1.4", "speedup 1.2", "speedup 1.3", "speedup 1.0", "speedup 1.0"];
        whole(&rules, Story::new(&lines)).attempts.iter().map(|attempt| attempt.plan.base).collect()
    };
    assert_eq!(bases(Strategy::Single, 5), [None]);
    assert_eq!(bases(Strategy::Sample { samples: 3 }, 5), [None, None, None]);
    assert_eq!(bases(Strategy::SampleRefine { samples: 3 }, 5), [None, None, None, Some(2), Some(2)]);
    assert_eq!(bases(Strategy::Refine, 4), [None, Some(1), Some(2), Some(2)]);
    assert_eq!(bases(Strategy::Beam { width: 2 }, 6), [None, None, Some(2), Some(3), Some(2), Some(4)]);
}

fn stopped(rules: &Rules, model: Story) -> (StopReason, usize) {
    let history = whole(rules, model);
    (history.stopped.clone().unwrap().0, history.attempts.len())
}

#[test]
fn each_stop_rule_stops() {
    let fast = || Story::new(&["speedup 1.5"]);
    assert_eq!(stopped(&Rules { iterations: 3, ..rules() }, fast()), (StopReason::Iterations, 3));
    assert_eq!(stopped(&Rules { iterations: 9, plateau: 2, ..rules() }, fast()), (StopReason::Plateau, 3));
    let mut limited = Rules { iterations: 9, ..rules() };
    limited.limits.usd = Some(0.03);
    // Generator, analyst, generator: three calls at a cent each.
    assert_eq!(stopped(&limited, Story::new(&["speedup 1.5"])), (StopReason::Dollars, 2));
    let mut limited = Rules { iterations: 9, ..rules() };
    limited.limits.seconds = Some(0.0);
    assert_eq!(stopped(&limited, Story::new(&["speedup 1.5"])), (StopReason::Time, 0));
    let near = Rules { iterations: 9, near_floor: Some(0.1), ..rules() };
    // The scripted floor is 100 us: reached at ten times the baseline's speed, known once it is profiled.
    assert_eq!(stopped(&near, Story::new(&["speedup 9.5"])), (StopReason::NearFloor, 2));
}

#[test]
fn a_raised_limit_goes_on_where_the_run_ended() {
    let prompts = prompts();
    let folder = tempfile::tempdir().unwrap();
    let model = Arc::new(Story::new(&["speedup 1.5", "speedup 1.2", "speedup 2.0"]));
    let short = Rules { iterations: 2, ..rules() };
    let first = go(folder.path(), &setup(&short, &model, &prompts), &UNDISTURBED).unwrap();
    assert!(first.finished && first.attempts.len() == 2);
    let again = go(folder.path(), &setup(&short, &model, &prompts), &UNDISTURBED).unwrap();
    assert_eq!(again.attempts.len(), 2, "nothing to do");
    let longer = Rules { iterations: 3, ..rules() };
    let last = go(folder.path(), &setup(&longer, &model, &prompts), &UNDISTURBED).unwrap();
    assert_eq!((last.attempts.len(), last.best().unwrap().id), (3, 3));
    assert_eq!(last.confirmed.as_ref().unwrap().0, 3, "the new winner is judged again");
    assert!(last.finished);
}

#[test]
fn a_winner_that_fails_the_second_time_is_none() {
    let lines = ["speedup 1.5", "speedup 9.0\n# again numeric", "speedup 1.2"];
    let history = whole(&Rules { iterations: 3, ..rules() }, Story::new(&lines));
    assert!(history.attempts[1].disproved.is_some());
    assert_eq!(history.best().unwrap().id, 1);
    assert_eq!(history.confirmed.as_ref().unwrap().0, 1);
}

#[test]
fn where_nothing_can_be_timed_a_correct_one_is_enough() {
    let unmeasured = Rules { measured: false, ..rules() };
    assert_eq!(stopped(&unmeasured, Story::new(&["kind numeric", "speedup 1.0"])), (StopReason::Exhausted, 2));
}

#[test]
fn a_limit_pauses_the_run_and_the_same_call_is_made_again() {
    struct Limited(Story);
    impl Model for Limited {
        fn name(&self) -> &'static str {
            "limited"
        }

        fn ask(&self, request: &Request, watch: &dyn Watch) -> Result<Reply, CallError> {
            if self.0.calls() == 0 {
                self.0.calls.fetch_add(1, Ordering::Relaxed);
                let kind = CallErrorKind::LimitReached { lifted_in: Some(Duration::from_millis(20)) };
                let text = "limit reached until 15:00".to_owned();
                return Err(CallError { kind, text, attempts: 1, may_be_billed: false });
            }
            self.0.ask(request, watch)
        }
    }
    let (prompts, rules) = (prompts(), Rules { iterations: 1, ..rules() });
    let folder = tempfile::tempdir().unwrap();
    let model = Arc::new(Limited(Story::new(&["speedup 1.5"])));
    let setup = Setup { rules: &rules, model, hooks: &[], params: Params::default(), prompts: &prompts };
    let history = go(folder.path(), &setup, &UNDISTURBED).unwrap();
    assert_eq!((history.attempts.len(), history.attempts[0].calls.len()), (1, 1));
    assert!(history.attempts[0].is_correct());
}

#[test]
fn a_candidate_that_breaks_the_evaluator_costs_one_attempt() {
    let history = whole(&Rules { iterations: 2, ..rules() }, Story::new(&["breaks it", "speedup 1.5"]));
    assert_eq!(history.attempts[0].result().unwrap().kind, Some(kforge_types::Kind::Protocol));
    assert_eq!(history.best().unwrap().id, 2);
}

#[test]
fn a_candidate_that_only_a_gpu_can_run_costs_one_attempt() {
    let history = whole(&Rules { iterations: 2, ..rules() }, Story::new(&["needs a GPU for smid", "speedup 1.5"]));
    let first = history.attempts[0].result().unwrap();
    assert_eq!(first.kind, Some(kforge_types::Kind::Exception));
    assert!(first.reason.contains("cannot run `smid`"), "{}", first.reason);
    assert_eq!(history.best().unwrap().id, 2);
}

#[test]
fn a_cap_on_the_last_attempt_holds_and_can_be_raised() {
    let prompts = prompts();
    let folder = tempfile::tempdir().unwrap();
    let model = Arc::new(Story::new(&["speedup 1.5", "speedup 1.6"]));
    let mut poor = Rules { iterations: 2, plateau: 1, ..rules() };
    // One generator and one analyst at a cent each; the second generator is not to be asked.
    poor.limits.usd = Some(0.02);
    let first = go(folder.path(), &setup(&poor, &model, &prompts), &UNDISTURBED).unwrap();
    assert_eq!((first.stopped.clone().unwrap().0, model.calls()), (StopReason::Dollars, 2));
    poor.limits.usd = Some(1.0);
    let second = go(folder.path(), &setup(&poor, &model, &prompts), &UNDISTURBED).unwrap();
    assert_eq!((second.attempts.len(), second.best().unwrap().id), (2, 2));
}

#[test]
fn a_reply_without_a_price_ends_a_run_that_is_capped_in_dollars() {
    let mut model = Story::new(&["speedup 1.5"]);
    model.usd = None;
    let mut capped = rules();
    capped.limits.usd = Some(5.0);
    assert_eq!(stopped(&capped, model), (StopReason::Dollars, 1));
}

#[test]
fn an_analyst_that_cannot_be_asked_ends_the_run_too() {
    struct Keyless(Story);
    impl Model for Keyless {
        fn name(&self) -> &'static str {
            "keyless"
        }

        fn ask(&self, request: &Request, watch: &dyn Watch) -> Result<Reply, CallError> {
            if request.label.role == "analyst" {
                let text = "set the key".to_owned();
                return Err(CallError { kind: CallErrorKind::NoKey, text, attempts: 0, may_be_billed: false });
            }
            self.0.ask(request, watch)
        }
    }
    let (prompts, rules) = (prompts(), rules());
    let folder = tempfile::tempdir().unwrap();
    let model = Arc::new(Keyless(Story::new(&["speedup 1.5"])));
    let setup = Setup { rules: &rules, model, hooks: &[], params: Params::default(), prompts: &prompts };
    let history = go(folder.path(), &setup, &UNDISTURBED).unwrap();
    assert_eq!((history.stopped.clone().unwrap().0, history.attempts.len()), (StopReason::Model, 2));
    assert_eq!(history.best().unwrap().id, 1);
}

#[test]
fn calls_that_may_be_billed_without_a_reply_are_charged() {
    let mut model = Story::new(&["speedup 1.5"]);
    model.generator.insert(0, Err(CallErrorKind::Cut));
    model.billed = true;
    let history = whole(&Rules { iterations: 1, ..rules() }, model);
    assert!(history.spend.input > 500 && history.spend.estimated == 1, "{:?}", history.spend);
}

#[test]
fn an_attempt_whose_script_failed_does_not_win_by_another_measure() {
    let script = r#"case "$(cat "$0")" in *'"attempt": 1'*) echo '{"score": 0.5}';; *) exit 1;; esac"#;
    let hooks = [Hook {
        on: When::Evaluation,
        command: vec!["sh".to_owned(), "-c".to_owned(), format!("{script} #")],
        folder: ".".into(),
        timeout: Duration::from_secs(5),
    }];
    let rules = Rules { iterations: 2, hooks_after_evaluation: 1, ..rules() };
    let (model, prompts) = (Arc::new(Story::new(&["speedup 1.5", "speedup 3.0"])), prompts());
    let folder = tempfile::tempdir().unwrap();
    let setup = Setup { hooks: &hooks, ..setup(&rules, &model, &prompts) };
    let history = go(folder.path(), &setup, &UNDISTURBED).unwrap();
    assert_eq!(history.best().unwrap().id, 1, "{:?}", history.attempts.iter().map(|a| &a.hooks).collect::<Vec<_>>());
}

#[test]
fn a_key_that_was_mended_is_tried_again() {
    let prompts = prompts();
    let folder = tempfile::tempdir().unwrap();
    let mut model = Story::new(&["speedup 1.5"]);
    model.generator.insert(0, Err(CallErrorKind::KeyRefused));
    let (model, rules) = (Arc::new(model), rules());
    let first = go(folder.path(), &setup(&rules, &model, &prompts), &UNDISTURBED).unwrap();
    assert_eq!(first.stopped.clone().unwrap().0, StopReason::Model);
    let model = Arc::new(Story::new(&["speedup 1.5"]));
    let again = go(folder.path(), &setup(&rules, &model, &prompts), &UNDISTURBED).unwrap();
    assert_eq!(again.stopped.clone().unwrap().0, StopReason::Iterations);
    assert!(again.best().is_some());
}

#[test]
fn tokens_are_capped_before_the_call() {
    let mut limited = Rules { iterations: 50, ..rules() };
    limited.limits.tokens = Some(20_000);
    let model = Story::new(&["speedup 1.5"]);
    let history = whole(&limited, model);
    assert_eq!(history.stopped.clone().unwrap().0, StopReason::Tokens);
    assert!(history.spend.tokens() <= 20_000, "{}", history.spend.tokens());
    assert!(history.spend.calls > 1);
}

#[test]
fn a_model_that_cannot_be_asked_ends_the_run_and_a_flaky_one_does_not() {
    let mut flaky = Story::new(&["speedup 1.5"]);
    flaky.generator.insert(0, Err(CallErrorKind::Cut));
    let history = whole(&rules(), flaky);
    assert_eq!(history.attempts.len(), 4);
    assert_eq!(history.attempts[0].result().unwrap().kind, Some(kforge_types::Kind::NoReply));
    for kind in [CallErrorKind::NoKey, CallErrorKind::Unreachable, CallErrorKind::Server] {
        let mut absent = Story::new(&[]);
        absent.generator.push(Err(kind));
        let history = whole(&rules(), absent);
        assert_eq!(history.stopped.clone().unwrap().0, StopReason::Model, "{kind:?}");
        assert!(history.attempts.iter().all(|attempt| attempt.judged.is_none()) && history.made() == 0, "{kind:?}");
    }
}

#[test]
fn a_model_that_is_away_is_asked_again_by_each_resumption_until_it_is_back() {
    let prompts = prompts();
    let folder = tempfile::tempdir().unwrap();
    let rules = Rules { iterations: 2, ..rules() };
    let away = || {
        let mut model = Story::new(&[]);
        model.generator.push(Err(CallErrorKind::Unreachable));
        Arc::new(model)
    };
    for _ in 0..3 {
        let model = away();
        let history = go(folder.path(), &setup(&rules, &model, &prompts), &UNDISTURBED).unwrap();
        assert_eq!((history.stopped.unwrap().0, model.calls()), (StopReason::Model, 1));
    }
    let model = Arc::new(Story::new(&["speedup 1.5", "speedup 2.0"]));
    let history = go(folder.path(), &setup(&rules, &model, &prompts), &UNDISTURBED).unwrap();
    assert_eq!((history.made(), history.best().unwrap().id), (2, 2), "none of the two was lost");
    assert_eq!(history.confirmed.as_ref().unwrap().0, 2);
}

#[test]
fn a_run_that_waits_for_its_model_may_end_for_another_reason() {
    let prompts = prompts();
    let folder = tempfile::tempdir().unwrap();
    let mut model = Story::new(&[]);
    model.generator.push(Err(CallErrorKind::Unreachable));
    let model = Arc::new(model);
    let mut rules = rules();
    go(folder.path(), &setup(&rules, &model, &prompts), &UNDISTURBED).unwrap();
    rules.limits.seconds = Some(0.0);
    let history = go(folder.path(), &setup(&rules, &model, &prompts), &UNDISTURBED).unwrap();
    assert_eq!((history.stopped.unwrap().0, model.calls()), (StopReason::Time, 1));
    assert!(history.finished);
}

#[test]
fn an_unreadable_answer_is_repaired_once() {
    let mut model = Story::new(&["speedup 1.5"]);
    let good = model.analyst[0].clone();
    model.analyst = vec!["no idea".to_owned(), good, "still none".to_owned(), "none at all".to_owned()];
    let history = whole(&Rules { iterations: 3, ..rules() }, model);
    let analyst = |index: usize| history.attempts[index].calls.iter().filter(|call| call.role == Role::Analyst).count();
    assert_eq!((analyst(1), analyst(2)), (2, 2));
    assert!(history.attempts[1].advice.advice().is_some());
    assert!(history.attempts[2].advice == Advised::Nothing);
    assert!(history.attempts[2].is_correct(), "the run goes on without advice");
}

#[test]
fn ablations_switch_the_analyst_off() {
    let asked = |change: fn(&mut Rules)| {
        let mut rules = rules();
        change(&mut rules);
        let history = whole(&rules, Story::new(&["kind numeric", "speedup 1.2", "speedup 1.4"]));
        let advised = history.attempts.iter().filter(|attempt| attempt.advice != Advised::NotYet).count();
        (advised, history.attempts.iter().filter(|attempt| attempt.profile.is_some()).count())
    };
    assert_eq!(asked(|_| ()), (3, 2));
    assert_eq!(asked(|rules| rules.ablation.self_refine = true), (0, 0));
    assert_eq!(asked(|rules| rules.ablation.correction_only = true), (1, 0));
    assert_eq!(asked(|rules| rules.ablation.optimisation_only = true), (2, 2));
    assert_eq!(asked(|rules| rules.ablation.no_profile = true), (3, 0));
}

#[test]
fn hooks_measure_score_fail_and_hang_without_harm() {
    let hook = |script: &str| Hook {
        on: When::Evaluation,
        command: vec!["sh".to_owned(), "-c".to_owned(), format!("{script} #")],
        folder: ".".into(),
        timeout: Duration::from_millis(300),
    };
    let hooks = [
        hook(r#"test -s "$0" && echo noise && echo '{"score": 7.5, "measurements": {"watts": 80}}'"#),
        hook("echo no >&2; exit 3"),
        hook("sleep 30"),
        hook("echo '{\"score\": \"high\"}'"),
    ];
    let rules = Rules { iterations: 1, hooks_after_evaluation: hooks.len(), ..rules() };
    let (model, prompts) = (Arc::new(Story::new(&["speedup 1.5"])), prompts());
    let folder = tempfile::tempdir().unwrap();
    let setup = Setup { hooks: &hooks, ..setup(&rules, &model, &prompts) };
    let history = go(folder.path(), &setup, &UNDISTURBED).unwrap();
    let attempt = &history.attempts[0];
    let fine: Vec<bool> = attempt.hooks.iter().map(|report| report.ok).collect();
    assert_eq!(fine, [true, false, false, false], "{:?}", attempt.hooks);
    assert_eq!(attempt.score(), Some(7.5));
    assert!((attempt.hooks[0].measurements["watts"] - 80.0).abs() < 1e-9);
}

#[test]
fn files_tell_the_run_without_kforge() {
    let (rules, prompts) = (rules(), prompts());
    let folder = tempfile::tempdir().unwrap();
    let model = Arc::new(Story::new(&["speedup 1.5", "kind crash", "speedup 2.5"]));
    let history = go(folder.path(), &setup(&rules, &model, &prompts), &UNDISTURBED).unwrap();
    let first = folder.path().join("sums/story/01");
    for name in ["prompt.md", "system.md", "reply.md", "candidate.py", "verdict.json", "measurement.json"] {
        assert!(first.join(name).exists(), "{name}");
    }
    assert!(first.join("profile/profile.json").exists());
    assert!(folder.path().join("sums/story/02/recommendation.json").exists());
    let best = std::fs::read_to_string(folder.path().join("sums/best/candidate.py")).unwrap();
    assert!(best.starts_with("# speedup 2.5"), "{best}");
    assert!(folder.path().join("sums/best/standalone.py").exists());
    let answered = history.attempts.iter().flat_map(|a| &a.calls).all(|call| matches!(call.answer, Answer::Reply(_)));
    assert!(answered);
}

#[test]
fn where_no_speedup_is_given_the_clocks_inside_rank() {
    let lines = ["speedup 1.2\n# withheld", "speedup 1.6\n# withheld", "speedup 1.4\n# withheld"];
    let history = whole(&Rules { iterations: 3, ..rules() }, Story::new(&lines));
    let best = history.best().unwrap();
    assert_eq!((best.id, best.result().unwrap().speedup), (2, None));
}
