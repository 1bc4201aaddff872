//! What all attempts of a call have used, counted by the server or estimated, and what looks odd about it.

use crate::wire::Partial;
use crate::{Request, Usage, estimate_prompt_tokens, estimate_tokens};

/// Sums over attempts.
pub(super) struct Tally {
    prompt: u64,
    usage: Usage,
    attempts: u32,
    last_input: Option<u64>,
}

impl Tally {
    pub(super) fn new(request: &Request) -> Self {
        Self { prompt: estimate_prompt_tokens(request), usage: Usage::default(), attempts: 0, last_input: None }
    }

    /// Adds an attempt on which the server has worked.
    pub(super) fn add(&mut self, partial: &Partial) {
        let mut counted = partial.usage;
        // Proxies that cannot count write zeros; nothing is not what was sent and said.
        counted.input = counted.input.filter(|tokens| *tokens > 0 || self.prompt == 0);
        counted.output = counted.output.filter(|tokens| *tokens > 0 || partial.text.is_empty());
        let estimated = counted.input.is_none() || counted.output.is_none();
        let add = |sum: Option<u64>, more: Option<u64>| match (sum, more) {
            (None, None) => None,
            (sum, more) => Some(sum.unwrap_or(0).saturating_add(more.unwrap_or(0))),
        };
        let usage = &mut self.usage;
        usage.input = add(usage.input, counted.input.or(Some(self.prompt)));
        usage.output = add(usage.output, counted.output.or_else(|| Some(estimate_tokens(&partial.text))));
        usage.cached_input = add(usage.cached_input, counted.cached_input);
        usage.reasoning = add(usage.reasoning, counted.reasoning);
        usage.estimated |= estimated;
        self.attempts += 1;
        self.last_input = counted.input;
    }

    pub(super) fn usage(&self) -> Usage {
        self.usage
    }

    /// Whether any attempt may be billed.
    pub(super) fn any(&self) -> bool {
        self.attempts > 0
    }

    pub(super) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.usage.estimated {
            notes.push("tokens estimated from the length of the text: the server did not count them".into());
        }
        // Some local servers cut a prompt to their context without a word; a reply to half a prompt looks like a bad model.
        if let Some(input) = self.last_input.filter(|input| self.prompt > 1000 && *input < self.prompt / 2) {
            notes.push(format!(
                "the server counted {input} tokens in a prompt of about {}: it may have cut it; raise the server's context",
                self.prompt
            ));
        }
        notes
    }
}

/// A note where the server says that a clearly different model answered.
pub(super) fn other_model(asked: &str, answered: &str) -> Option<String> {
    let plain = |name: &str| {
        let name = name.to_lowercase();
        name.rsplit('/').next().unwrap_or_default().to_owned()
    };
    let (short, long) = (plain(asked), plain(answered));
    if answered.is_empty() || short == long {
        return None;
    }
    // A date or a version may be added or left out: gpt-4o and gpt-4o-2024-08-06 are one model, gpt-4o and gpt-4o-mini are not.
    let rest = long.strip_prefix(&short).or_else(|| short.strip_prefix(&long));
    let same = rest.is_some_and(|rest| {
        rest.starts_with(['-', ':', '@', '.'])
            && rest.split(['-', ':', '@', '.']).all(|word| {
                let digits = word.strip_prefix('v').unwrap_or(word);
                digits.bytes().all(|byte| byte.is_ascii_digit())
                    || matches!(word, "latest" | "preview" | "exp" | "experimental" | "beta" | "free" | "gguf")
            })
    });
    (!same).then(|| format!("asked for {asked}, and the server says that {answered} answered"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_models() {
        for (asked, answered) in [
            ("gpt-4o", "gpt-4o-2024-08-06"),
            ("claude-sonnet-4-5", "claude-sonnet-4-5-20250929"),
            ("meta-llama/Llama-3.3-70B", "llama-3.3-70b"),
            ("llama3.1", "llama3.1:latest"),
            ("models/gemini-2.5-pro", "gemini-2.5-pro-preview-05-06"),
            ("x", ""),
        ] {
            assert_eq!(other_model(asked, answered), None, "{asked} {answered}");
        }
        for (asked, answered) in [("gpt-4o", "gpt-4o-mini"), ("gpt-5", "gpt-4"), ("gpt-4", "gpt-4o"), ("a", "b")] {
            assert!(other_model(asked, answered).is_some(), "{asked} {answered}");
        }
    }
}
