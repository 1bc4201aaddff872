//! All rules, in the order in which they are listed.

// Spelled out, since rustfmt does not look for modules in what a macro makes.
pub(crate) mod call_counter;
pub(crate) mod downcast;
pub(crate) mod dynamic_code;
pub(crate) mod environment;
pub(crate) mod fast_math;
pub(crate) mod framework_fallback;
pub(crate) mod global_numerics;
pub(crate) mod harness_files;
pub(crate) mod hidden_fallback;
pub(crate) mod imports;
pub(crate) mod introspection;
pub(crate) mod monkey_patch;
pub(crate) mod native_escape;
pub(crate) mod network;
pub(crate) mod own_threads;
pub(crate) mod pointer_cache;
pub(crate) mod process_control;
pub(crate) mod tensor_subclass;
pub(crate) mod too_large;

use kforge_types::Severity;

use crate::context::{Context, Sink};

/// One source rule.
pub struct Rule {
    /// As `--allow-rule` takes it.
    pub name: &'static str,
    /// Whether its findings reject.
    pub severity: Severity,
    source: &'static str,
    check: fn(&Context<'_>, &mut Sink<'_>),
}

impl Rule {
    /// What it does, why that is bad, and an example, as Markdown.
    #[must_use]
    pub fn doc(&self) -> String {
        let lines = self.source.lines().take_while(|line| line.starts_with("//!"));
        lines
            .map(|line| line.trim_start_matches("//!").strip_prefix(' ').unwrap_or_default().to_owned() + "\n")
            .collect()
    }

    /// The first sentence of the documentation.
    #[must_use]
    pub fn summary(&self) -> String {
        self.doc().lines().take_while(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
    }

    pub(crate) fn run(&self, context: &Context<'_>, sink: &mut Sink<'_>) {
        (self.check)(context, sink);
    }
}

macro_rules! rules {
    ($($name:ident: $severity:ident,)*) => {
        static RULES: &[Rule] = &[$(Rule {
            name: stringify!($name),
            severity: Severity::$severity,
            // The module comment of a rule is its documentation, so the file itself is the text.
            source: include_str!(concat!(stringify!($name), ".rs")),
            check: $name::check,
        }),*];
    };
}

rules! {
    hidden_fallback: Hard,
    monkey_patch: Hard,
    introspection: Hard,
    network: Hard,
    process_control: Hard,
    global_numerics: Hard,
    dynamic_code: Hard,
    environment: Hard,
    tensor_subclass: Hard,
    harness_files: Hard,
    native_escape: Hard,
    too_large: Hard,
    imports: Hard,
    framework_fallback: Soft,
    pointer_cache: Soft,
    call_counter: Soft,
    own_threads: Soft,
    downcast: Soft,
    fast_math: Soft,
}

/// Every rule, hard ones first.
#[must_use]
pub fn rules() -> &'static [Rule] {
    RULES
}
