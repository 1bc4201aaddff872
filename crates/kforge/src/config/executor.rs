//! Who evaluates, as flags and files name it.

use serde::{Deserialize, Serialize};
use std::{fmt, path::PathBuf, str::FromStr};

/// Where evaluations take place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Executor {
    /// In this process.
    InPlace,
    /// By whoever works at this exchange folder.
    Exchange(PathBuf),
    /// On another machine, over ssh.
    Ssh {
        /// As ssh takes it.
        host: String,
        /// The kforge there; without one, this one is copied there.
        program: Option<String>,
    },
}

impl FromStr for Executor {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is no executor: write in-place, exchange:DIR, ssh:HOST or ssh:HOST:KFORGE");
        if text == "in-place" {
            return Ok(Self::InPlace);
        }
        if let Some(folder) = text.strip_prefix("exchange:").filter(|folder| !folder.is_empty()) {
            return Ok(Self::Exchange(PathBuf::from(folder)));
        }
        let rest = text.strip_prefix("ssh:").ok_or_else(wrong)?;
        // The colons of [::1] are its own.
        let after = rest.find(']').unwrap_or(0);
        let (host, program) = match rest[after..].split_once(':') {
            Some((head, program)) => (&rest[..after + head.len()], Some(program)),
            None => (rest, None),
        };
        // ssh would take a dash for an option of its own; quotes would end ours.
        let plain = |c: char| !c.is_whitespace() && !c.is_control() && c != '\'';
        let sane = |word: &str| !word.is_empty() && !word.starts_with('-') && word.chars().all(plain);
        if !sane(host) || program.is_some_and(|program| !sane(program)) {
            return Err(wrong());
        }
        Ok(Self::Ssh { host: host.to_owned(), program: program.map(str::to_owned) })
    }
}

impl fmt::Display for Executor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InPlace => f.write_str("in-place"),
            Self::Exchange(folder) => write!(f, "exchange:{}", folder.display()),
            Self::Ssh { host, program: None } => write!(f, "ssh:{host}"),
            Self::Ssh { host, program: Some(program) } => write!(f, "ssh:{host}:{program}"),
        }
    }
}

impl TryFrom<String> for Executor {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Executor> for String {
    fn from(executor: Executor) -> Self {
        executor.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_is_read_and_written() {
        let all = ["in-place", "exchange:/mnt/jobs", "exchange:a:b", "ssh:box", "ssh:me@[::1]", "ssh:box:~/bin/kforge"];
        for text in all {
            assert_eq!(text.parse::<Executor>().unwrap().to_string(), text);
        }
        let named = Executor::Ssh { host: "[::1]".to_owned(), program: Some("/k".to_owned()) };
        assert_eq!("ssh:[::1]:/k".parse(), Ok(named));
        for text in ["", "box", "exchange:", "ssh:", "ssh:-oProxyCommand=x", "ssh:a b", "ssh:box:", "ssh:box:/a'b"] {
            assert!(text.parse::<Executor>().unwrap_err().contains("exchange:DIR"), "{text}");
        }
    }
}
