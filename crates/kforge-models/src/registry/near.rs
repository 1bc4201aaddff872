//! Names that a mistyped one may have meant.

/// Up to three of the known names that are near.
pub(super) fn nearest(name: &str, known: &[String]) -> Vec<String> {
    // A name from a hostile file could be long, and the distance takes quadratic time.
    let name: String = name.to_lowercase().chars().take(80).collect();
    let limit = (name.chars().count() / 3).max(usize::from(name.len() > 3) + 1);
    let mut near: Vec<(usize, &String)> = known
        .iter()
        .map(|candidate| (strsim::levenshtein(&name, &candidate.to_lowercase()), candidate))
        .filter(|(distance, candidate)| {
            *distance <= limit || (name.len() >= 4 && candidate.to_lowercase().starts_with(&name))
        })
        .collect();
    near.sort();
    near.into_iter().take(3).map(|(_, candidate)| candidate.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_first() {
        let known = ["gpt-5", "gpt-5-mini", "Claude-sonnet-4-5"].map(String::from);
        assert_eq!(nearest("gpt5", &known), ["gpt-5"]);
        assert_eq!(nearest("claude", &known), ["Claude-sonnet-4-5"]);
        assert_eq!(nearest("entirely-else", &known), [""; 0]);
    }
}
