//! Reasoning that a server without a reasoning parser leaves inside the text.

/// The text behind a leading `<think>` block; `None` where there is no such block.
pub(super) fn without_reasoning(text: &str) -> Option<&str> {
    const END: &str = "</think>";
    let opened = text.trim_start().starts_with("<think>");
    match text.find(END) {
        // Templates that put the opening tag into the prompt leave the closing one alone in the reply.
        Some(at) if opened || !text[..at].contains("<think>") => Some(text[at + END.len()..].trim_start()),
        None if opened => Some(""),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks() {
        assert_eq!(without_reasoning("<think>\nhm\n</think>\n\nyes"), Some("yes"));
        assert_eq!(without_reasoning("hm\n</think>\nyes"), Some("yes"));
        assert_eq!(without_reasoning("<think> never ends"), Some(""));
        assert_eq!(without_reasoning("plain"), None);
        assert_eq!(without_reasoning("say <think>x</think>"), None);
    }
}
