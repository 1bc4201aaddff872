//! Names that a mistyped one may have meant.

/// Up to three of the known names that are near.
pub(super) fn nearest(name: &str, known: &[String]) -> Vec<String> {
    // A name from a hostile file could be long, and the distance takes quadratic time.
    let name: String = name.to_lowercase().chars().take(80).collect();
    let limit = (name.chars().count() / 3).max(usize::from(name.len() > 3) + 1);
    let mut near: Vec<(usize, &String)> = known
        .iter()
        .map(|candidate| (distance(&name, &candidate.to_lowercase()), candidate))
        .filter(|(distance, candidate)| *distance <= limit || (name.len() >= 4 && candidate.starts_with(&name)))
        .collect();
    near.sort();
    near.into_iter().take(3).map(|(_, candidate)| candidate.clone()).collect()
}

/// How many characters must be put in, taken out or changed.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let changed = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        for (a, b, expected) in
            [("", "", 0), ("abc", "", 3), ("", "ab", 2), ("kitten", "sitting", 3), ("gpt5", "gpt-5", 1)]
        {
            assert_eq!(distance(a, b), expected, "{a} {b}");
        }
    }

    #[test]
    fn near_names_first() {
        let known = ["gpt-5", "gpt-5-mini", "claude-sonnet-4-5"].map(String::from);
        assert_eq!(nearest("gpt5", &known), ["gpt-5"]);
        assert_eq!(nearest("claude", &known), ["claude-sonnet-4-5"]);
        assert_eq!(nearest("entirely-else", &known), [""; 0]);
    }
}
