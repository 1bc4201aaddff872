//! Layers, their order, and the file of `kforge init`.

use super::{units::Span, values::HookEvent, *};
use clap::Args;
use std::path::Path;

struct Folders {
    project: tempfile::TempDir,
    user: tempfile::TempDir,
}

/// A working folder and a user's folder with these files; an empty text is no file.
fn folders(project: &str, user: &str) -> Folders {
    let made = Folders { project: tempfile::tempdir().unwrap(), user: tempfile::tempdir().unwrap() };
    for (folder, name, text) in [(&made.project, "kforge.toml", project), (&made.user, "config.toml", user)] {
        if !text.is_empty() {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
    }
    made
}

impl Folders {
    fn resolve(&self, flags: Settings) -> Result<(Resolved, Vec<Origin>), ConfigError> {
        Settings::resolve(flags, self.project.path(), Some(self.user.path()))
    }
}

fn resolved(project: &str, user: &str) -> Result<(Resolved, Vec<Origin>), ConfigError> {
    folders(project, user).resolve(Settings::default())
}

fn defaults() -> Resolved {
    resolved("", "").unwrap().0
}

fn uncommented(template: &str) -> String {
    template
        .lines()
        .map(|line| line.strip_prefix('#').filter(|rest| !rest.starts_with(' ')).unwrap_or(line).to_owned() + "\n")
        .collect()
}

#[test]
fn the_nearest_layer_wins_and_is_remembered() {
    let folders = folders("iterations = 20\nstrategy = 'beam'\n", "iterations = 30\nmodel = 'x/y'\nmemory = 8\n");
    let flags = Settings { strategy: Some(Strategy::SampleRefine), ..Settings::default() };
    let (settings, origins) = folders.resolve(flags).unwrap();
    assert_eq!(settings.search.strategy, Strategy::SampleRefine);
    assert_eq!(settings.search.iterations.get(), 20);
    assert_eq!((settings.search.generator(), settings.search.analyst()), (Some("x/y"), Some("x/y")));
    assert_eq!(settings.evaluation.memory, Positive(8.0));
    let project = Layer::Project(folders.project.path().join("kforge.toml"));
    let user = Layer::User(folders.user.path().join("config.toml"));
    let expected = [
        ("strategy", Layer::Flags),
        ("iterations", project),
        ("model", user.clone()),
        ("memory", user),
        ("samples", Layer::Default),
        ("budget_usd", Layer::Default),
    ];
    for (key, layer) in expected {
        let found: Vec<&Origin> = origins.iter().filter(|origin| origin.key == key).collect();
        assert_eq!(found, [&Origin { key, layer }]);
    }
}

#[test]
fn lists_add_up_nearest_first() {
    let folders = folders("ban = ['torch.mm']\noff = ['fast_math']", "ban = ['.half()']");
    let flags = Settings { ban: vec!["cpp:cublas*".parse().unwrap()], ..Settings::default() };
    let (settings, origins) = folders.resolve(flags).unwrap();
    let texts: Vec<String> = settings.rules.ban.iter().map(ToString::to_string).collect();
    assert_eq!(texts, ["cpp:cublas*", "torch.mm", ".half()"]);
    assert_eq!(settings.rules.off.len(), 1);
    assert_eq!(origins.iter().filter(|origin| origin.key == "ban").count(), 3);
}

#[test]
fn a_switch_can_be_switched_off_again() {
    let folders = folders("no_profile = true", "");
    let flags = Settings { no_profile: Some(false), ..Settings::default() };
    assert!(!folders.resolve(flags).unwrap().0.search.no_profile);
    assert!(folders.resolve(Settings::default()).unwrap().0.search.no_profile);
}

#[test]
fn every_kind_of_value_is_read() {
    let text = "
        target = 'nvidia/triton'
        generator_model = 'a/b'
        budget_usd = '$2.50'
        budget_tokens = 2_000_000
        budget_time = '1h30m'
        timeout = 90
        time_budget = 0.5
        near_floor = 0.1
        temperature = 0
        precision = 'tf32'
        effort = 'minimal'
        runs = 'my runs'
        require = ['triton.jit', 're:tl\\.dot']

        [[hook]]
        on = 'evaluation'
        command = ['true']

        [[hook]]
        on = 'end'
        command = ['notify-send', 'done']
        timeout = '5s'
    ";
    let (settings, _) = resolved(text, "").unwrap();
    assert_eq!(settings.evaluation.target, Some("nvidia/triton".parse().unwrap()));
    assert_eq!((settings.search.generator(), settings.search.analyst()), (Some("a/b"), None));
    assert_eq!(
        (settings.search.budget_usd, settings.search.budget_time),
        (Some(Usd(2.5)), Some(Span::from_secs(5400)))
    );
    assert_eq!(
        (settings.evaluation.timeout, settings.evaluation.time_budget),
        (Span::from_secs(90), "500ms".parse().unwrap())
    );
    assert_eq!(settings.rules.require.len(), 2);
    assert_eq!(settings.search.hook[0].timeout, Span::from_secs(30));
    assert_eq!((settings.search.hook[1].on, settings.search.hook[1].timeout), (HookEvent::End, Span::from_secs(5)));
    // What is kept beside a run can be read again.
    let kept = toml::to_string(&settings).unwrap();
    assert_eq!(resolved(&kept, "").unwrap().0, settings);
}

#[test]
fn mistakes_name_the_file_the_line_and_what_to_write() {
    let cases = [
        ("\nitertions = 3", "kforge.toml:2: there is no setting `itertions`; did you mean `iterations`?"),
        ("strategy = 'beem'", "kforge.toml:1: there is no choice `beem`; did you mean `beam`?"),
        ("\n\nbudget_time = 'soon'", "kforge.toml:3: \"soon\" is not a length of time: write 90s"),
        ("budget_usd = -1", "kforge.toml:1: \"-1\" is not an amount of US dollars"),
        ("iterations = 0", "kforge.toml:1: invalid value"),
        ("temperature = 3.5", "write a number from 0 to 2"),
        ("off = ['fast_maths']", "kforge.toml:1: there is no rule `fast_maths`; did you mean `fast_math`?"),
        ("ban = [\n'a',\n're:(']", "`re:(` is not a pattern: "),
        ("target = 'cuda'", "write vendor/model"),
        (
            "[[hook]]\non = 'end'\ncomand = ['x']",
            "kforge.toml:3: there is no setting `comand`; did you mean `command`?",
        ),
        ("[[hook]]\non = 'end'\ncommand = []", "begins with a program"),
        ("[[hook]]\non = 'end'", "kforge.toml:1: missing field `command`"),
        ("iterations = 1\niterations = 2", "kforge.toml:2: duplicate key"),
        ("correction_only = true\noptimisation_only = true", "switch one of them off"),
        ("no_profile = true\nall_metrics = true", "switch one of them off"),
    ];
    for (text, says) in cases {
        let error = resolved(text, "").expect_err(text).to_string();
        assert!(error.contains(says), "{text}: {error}");
        assert!(!error.contains('\n'), "{error}");
    }
    assert!(resolved("", "x = 1").unwrap_err().to_string().contains("config.toml:1: "));
}

#[test]
fn the_file_of_init_says_nothing_as_it_is_and_the_defaults_without_its_comment_marks() {
    let template = template();
    assert_eq!(toml::from_str::<Settings>(&template).unwrap(), Settings::default());
    let (before, _) = template.split_once("# ---- not set").unwrap();
    let text = uncommented(before);
    assert_eq!(resolved(&text, "").unwrap().0, defaults());
    let keys: Vec<&str> = text.lines().filter_map(|line| line.split_once(" = ")).map(|(key, _)| key).collect();
    assert_eq!(keys.len(), 27, "{keys:?}");
    // The examples are no defaults, but they are valid.
    let all = uncommented(&template);
    let (with_examples, origins) = resolved(&all, "").unwrap();
    assert!(with_examples.search.model.is_some() && with_examples.search.hook.len() == 1);
    assert!(origins.iter().all(|origin| matches!(origin.layer, Layer::Project(_))), "{origins:?}");
}

#[test]
fn the_users_folder_is_found_as_other_programs_find_theirs() {
    let found = |variables: &[(&str, &str)]| {
        user_dir(|name| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into()))
    };
    let all = [("KFORGE_CONFIG_DIR", "/a"), ("XDG_CONFIG_HOME", "/b"), ("HOME", "/c")];
    assert_eq!(found(&all).as_deref(), Some(Path::new("/a")));
    assert_eq!(found(&all[1..]).as_deref(), Some(Path::new("/b/kforge")));
    assert!(found(&all[2..]).unwrap().starts_with("/c"));
    assert!(found(&[("XDG_CONFIG_HOME", "relative"), ("HOME", "/c")]).unwrap().starts_with("/c"));
    assert_eq!(found(&[]), None);
}

#[test]
fn help_texts_name_the_defaults_that_hold() {
    let command = Settings::augment_args(clap::Command::new("kforge"));
    for (key, value) in Settings::defaults() {
        let flag = command.get_arguments().find(|flag| flag.get_id() == key).unwrap();
        let help = flag.get_help().unwrap().to_string();
        let wanted = format!("[default: {}]", value.trim_matches('"'));
        assert!(help.ends_with(&wanted), "{key}: {help}: {wanted}");
    }
}

#[derive(clap::Parser)]
struct Judging {
    #[command(flatten)]
    evaluation: EvaluationFlags,
    #[command(flatten)]
    rules: RuleFlags,
}

#[test]
fn flags_of_a_group_are_a_layer_like_any_other() {
    let flags = ["kforge", "--timeout", "2m", "--time-budget", "0.5", "--deterministic", "--ban", ".half()"];
    let judging = <Judging as clap::Parser>::try_parse_from(flags).unwrap();
    let folders =
        folders("timeout = '5m'\ndeterministic = false\nmemory = 8\nban = ['torch.mm']\nown_operators = true", "");
    let layer = judging.rules.within(judging.evaluation.within(Settings::default()));
    let (settings, _) = folders.resolve(layer).unwrap();
    let evaluation = settings.evaluation;
    assert_eq!((evaluation.timeout, evaluation.time_budget), (Span::from_secs(120), "500ms".parse().unwrap()));
    assert!(evaluation.deterministic && evaluation.own_operators && evaluation.memory == Positive(8.0));
    assert_eq!(settings.rules.ban.len(), 2);
    let seconds = <Judging as clap::Parser>::try_parse_from(["kforge", "--timeout", "120"]).unwrap();
    assert_eq!(seconds.evaluation.timeout, Some(Span::from_secs(120)));
}
