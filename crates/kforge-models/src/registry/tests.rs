use super::*;
use crate::CallErrorKind;

fn with(text: &str) -> Result<Registry, CallError> {
    Registry::parse(Some(("models.toml", text)))
}

fn error_of(text: &str) -> String {
    let error = with(text).unwrap_err();
    assert_eq!(error.kind, CallErrorKind::Setup);
    error.text
}

const LOCAL: &str = r#"
    [[model]]
    name = "local"
    wire = "openai-chat"
    model = "qwen"
    base_url = "http://127.0.0.1:9/v1"
    no_key = true
"#;

#[test]
fn the_embedded_list_is_sound() {
    let registry = Registry::load(None).unwrap();
    assert!(registry.entries().count() >= 10);
    assert_eq!(registry.prefixes().count(), 12);
    let entry = registry.entry("claude-sonnet-4-5").unwrap();
    assert_eq!((entry.wire, entry.key_env.as_deref()), (Wire::Anthropic, Some("ANTHROPIC_API_KEY")));
    assert_eq!(registry.entry("deepseek-chat").unwrap().price, None);
}

#[test]
fn any_model_of_a_provider() {
    let registry = Registry::load(None).unwrap();
    let entry = registry.entry("openrouter:meta-llama/llama-3.3-70b:free").unwrap();
    assert_eq!(entry.model, "meta-llama/llama-3.3-70b:free");
    assert_eq!(entry.price, None);
    let entry = registry.entry("vllm:qwen@http://box:9000").unwrap();
    assert_eq!((entry.model.as_str(), entry.base_url.as_str()), ("qwen", "http://box:9000/v1"));
    assert!(entry.no_key);
    assert_eq!(registry.entry("sglang:m@https://box/api/v1/").unwrap().base_url, "https://box/api/v1");
    assert_eq!(registry.entry("ollama:llama3.1:8b").unwrap().base_url, "http://localhost:11434/v1");
}

#[test]
fn a_key_is_not_sent_to_another_address() {
    let registry = Registry::load(None).unwrap();
    assert!(registry.entry("openai:gpt-5@http://evil.example").unwrap_err().text.contains("key is not sent"));
    assert!(registry.entry("vllm:m@http://user:secret@box").unwrap_err().text.contains("password"));
}

#[test]
fn no_error_shows_a_password() {
    let registry = Registry::load(None).unwrap();
    for name in [
        "vllm:m@http://user:hunter2@box",
        "vllm:@http://user:hunter2@box",
        "vlm:m@https://user:hunter2@box",
        "openai:gpt-5@https://user:hunter2@box",
    ] {
        let text = registry.entry(name).unwrap_err().text;
        assert!(!text.contains("hunter2"), "{name}: {text}");
    }
    for address in ["ftp://user:hunter2@box/v1", "user:hunter2@box/v1"] {
        let text = error_of(&LOCAL.replace("http://127.0.0.1:9/v1", address));
        assert!(text.contains("base_url") && !text.contains("hunter2"), "{text}");
    }
}

#[test]
fn a_prefixed_name_finds_the_entrys_price() {
    let registry = Registry::load(None).unwrap();
    let entry = registry.entry("openai:gpt-4o").unwrap();
    assert_eq!(entry.name, "openai:gpt-4o");
    assert_eq!(entry.price, registry.entry("gpt-4o").unwrap().price);
    assert!(entry.price.is_some());
}

#[test]
fn the_users_file_adds_and_replaces() {
    let registry =
        with(&format!("{LOCAL}\n[[model]]\nname = 'gpt-4o'\nprovider = 'openai'\nmodel = 'gpt-4o'\nno_key = true"))
            .unwrap();
    assert_eq!(registry.entry("local").unwrap().base_url, "http://127.0.0.1:9/v1");
    let replaced = registry.entry("gpt-4o").unwrap();
    assert_eq!((replaced.price, replaced.key_source()), (None, crate::key::KeySource::None));
    let registry = with(
        "[[provider]]\nprefix = 'mine'\nwire = 'anthropic'\nbase_url = 'http://h/v1'\nkey_command = ['pass', 'k']",
    )
    .unwrap();
    assert_eq!(
        registry.entry("mine:x").unwrap().key_source(),
        crate::key::KeySource::Command(vec!["pass".into(), "k".into()])
    );
}

#[test]
fn every_field_is_read() {
    let registry = with(
        r#"
        [[provider]]
        prefix = "p"
        wire = "openai-chat"
        base_url = "https://h/v1"
        no_key = true
        [[model]]
        name = "all"
        provider = "p"
        model = "m"
        key_env = "K"
        key_header = "api-key"
        context = 10
        max_output = 5
        max_tokens_field = "max_new_tokens"
        price = { input = 1, output = 2.5 }
        vision = true
        no_temperature = true
        effort = { style = "reasoning", levels = ["low"] }
        requests_per_minute = 3
        max_parallel = 2
        timeouts = { idle = 7 }
        extra = { top_p = 0.5, provider = { order = ["a"] } }
        headers = { X-Title = "kforge" }
        [[model]]
        name = "cli"
        wire = "command"
        command = ["agent", "--print"]
        pass_env = ["AGENT_KEY"]
        json = { result = "/text" }
        "#,
    )
    .unwrap();
    // Whole values, so that a new field does not compile before it is looked at here.
    let all = Entry {
        name: "all".into(),
        provider: Some("p".into()),
        wire: Wire::OpenaiChat,
        model: "m".into(),
        base_url: "https://h/v1".into(),
        key_env: Some("K".into()),
        key_command: None,
        no_key: false,
        key_header: Some("api-key".into()),
        context: Some(10),
        max_output: Some(5),
        max_tokens_field: Some("max_new_tokens".into()),
        price: Some(crate::Prices { input: 1.0, cached_input: None, output: 2.5 }),
        vision: true,
        no_temperature: true,
        effort: Some(EffortSupport { style: Some(EffortStyle::Reasoning), levels: vec![crate::Effort::Low] }),
        requests_per_minute: Some(3),
        max_parallel: Some(2),
        timeouts: Timeouts { connect: 20, idle: 7, overall: 3600 },
        extra: toml::from_str("top_p = 0.5\nprovider = { order = ['a'] }").unwrap(),
        headers: BTreeMap::from([("X-Title".into(), "kforge".into())]),
        command: Vec::new(),
        pass_env: Vec::new(),
        json: None,
    };
    assert_eq!(registry.entry("all").unwrap(), all);
    let Route::Command(entry) = registry.route("cli").unwrap() else { panic!() };
    assert_eq!((entry.command.concat(), entry.pass_env.concat()), ("agent--print".into(), "AGENT_KEY".into()));
    assert_eq!(entry.json, Some(crate::JsonFields { result: "/text".into(), ..crate::JsonFields::default() }));
}

#[test]
fn mistakes_are_named() {
    assert!(error_of(&LOCAL.replace("no_key", "nokey")).contains("nokey"));
    assert!(error_of(&LOCAL.replace("no_key = true", "")).contains("exactly one"));
    assert!(error_of(&LOCAL.replace("openai-chat", "smoke-signals")).contains("smoke-signals"));
    assert!(error_of(&LOCAL.replace("http://127.0.0.1:9/v1", "127.0.0.1")).contains("base_url"));
    assert!(error_of(&LOCAL.replace("http:", "ftp:")).contains("http://"));
    assert!(error_of(&format!("{LOCAL}\nheaders = {{ Authorization = 'Bearer x' }}")).contains("secret"));
    assert!(error_of(&format!("{LOCAL}{LOCAL}")).contains("two models"));
    assert!(error_of(&format!("{LOCAL}\nmax_parallel = 0")).contains("positive"));
    assert!(error_of(&format!("{LOCAL}\nprice = {{ input = nan, output = 1 }}")).contains("price"));
    assert!(error_of("[[model]]\nwire = 'openai-chat'").contains("name"));
    assert!(error_of("[[model]]\nname = 'x'\nprovider = 'nobody'").contains("nobody"));
    assert!(error_of("[[provider]]\nprefix = 'p'\nwier = 'x'").contains("provider p"));
    assert!(error_of("[[model]\n").contains("models.toml"));
    assert!(error_of("[[models]]\n").contains("models"));
    assert!(error_of("[[model]]\nname = 'c'\nwire = 'command'").contains("command ="));
    let program = "[[model]]\nname = 'c'\nwire = 'command'\ncommand = ['agent']";
    assert!(error_of(&format!("{program}\nprice = {{ input = -1, output = 1 }}")).contains("price"));
    assert!(error_of(&format!("{program}\ntimeouts = {{ overall = 0 }}")).contains("timeouts"));
}

#[test]
fn unknown_names_get_suggestions_and_the_five_ways() {
    let text = Registry::load(None).unwrap().route("cluade-sonnet-4-5").unwrap_err().text;
    assert!(text.contains("Did you mean claude-sonnet-4-5"), "{text}");
    for way in ["API key", "base_url", "local server", "command", "mailbox:"] {
        assert!(text.contains(way), "{way}: {text}");
    }
    let text = Registry::load(None).unwrap().route("opnai:gpt-5").unwrap_err().text;
    assert!(text.contains("Did you mean openai:gpt-5"), "{text}");
}

#[test]
fn folders_and_recordings() {
    let registry = Registry::load(None).unwrap();
    assert_eq!(registry.route("mailbox:a:b").unwrap(), Route::Mailbox("a:b".into()));
    assert_eq!(registry.route("replay:r.jsonl").unwrap(), Route::Replay("r.jsonl".into()));
    assert!(registry.route("mailbox:").is_err());
}

#[test]
fn files() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("models.toml");
    assert!(Registry::load(Some(&path)).unwrap_err().text.contains("models.toml"));
    std::fs::write(&path, LOCAL).unwrap();
    assert!(Registry::load(Some(&path)).unwrap().entry("local").is_ok());
    std::fs::write(&path, "#".repeat(2 << 20)).unwrap();
    assert!(Registry::load(Some(&path)).unwrap_err().text.contains("1 MiB"));
    std::fs::write(&path, [0xff, 0xfe]).unwrap();
    assert!(Registry::load(Some(&path)).is_err());
}

#[test]
fn a_new_model_of_a_known_family_works_and_says_what_is_assumed() {
    let registry = Registry::load(None).unwrap();
    let cases = [
        ("gpt-99-ultra", Wire::OpenaiResponses, "OPENAI_API_KEY"),
        ("claude-opus-99", Wire::Anthropic, "ANTHROPIC_API_KEY"),
        ("gemini-99-pro", Wire::Gemini, "GEMINI_API_KEY"),
        ("deepseek-v99", Wire::OpenaiChat, "DEEPSEEK_API_KEY"),
        ("openai:gpt-99", Wire::OpenaiChat, "OPENAI_API_KEY"),
    ];
    for (name, wire, key) in cases {
        let entry = registry.entry(name).unwrap();
        assert_eq!((entry.wire, entry.key_env.as_deref(), entry.price), (wire, Some(key), None), "{name}");
        let assumed = registry.assumed(name).unwrap();
        assert!(
            assumed.starts_with(&format!("{} is not in the registry; assumed: it speaks", entry.model)),
            "{assumed}"
        );
        assert!(assumed.contains("its price is not known") && assumed.contains("models.toml"), "{assumed}");
    }
    assert!(registry.assumed("claude-opus-99").unwrap().contains("at most 32000 tokens"));
    for known in ["gpt-5", "openai-responses:gpt-5", "mailbox:m", "replay:r", "claude-cli", "gtp-5", "gpt-"] {
        assert_eq!(registry.assumed(known), None, "{known}");
    }
    assert!(registry.entry("gpt-").is_err(), "no name");
}
