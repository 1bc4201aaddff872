//! The first words over ssh: what machine is it, does it have this kforge, and if not, here it is.
//!
//! A shell script of one line, passed in single quotes so that every login shell leaves it alone. It says what it found
//! and waits; nothing but the program is sent before the worker's own first word.

use anyhow::{Context, bail};
use std::io::{Read, Write};

/// Lines of a greeting that some machines print before anything else, together.
const MOST_NOISE: usize = 64 << 10;
const MARK: &str = "kforge-bootstrap";

/// `$1` is the kforge there or `-`, `$2` the hash of ours; the rest is for the worker.
const SCRIPT: &str = concat!(
    r#"k="$1"; s="$2"; shift 2; case "$k" in "~/"*) k="$HOME/${k#??}";; esac; h=own; "#,
    r#"if [ "$k" = - ]; then d="${XDG_CACHE_HOME:-$HOME/.cache}/kforge/bin/$s"; k="$d/kforge"; "#,
    r#"if [ -x "$k" ]; then h=have; else h=need; fi; fi; "#,
    r#"echo "kforge-bootstrap $(uname -s) $(uname -m) $h"; read -r w n || exit 9; "#,
    r#"if [ "$w" = put ]; then umask 077; mkdir -p "$d" || exit 9; t="$d/new.$$"; head -c "$n" > "$t" || exit 9; "#,
    r#"c=$(sha256sum "$t" 2>/dev/null || shasum -a 256 "$t"); "#,
    r#"case "$c" in "$s"*) ;; *) rm -f "$t"; echo "kforge: the program arrived damaged" >&2; exit 9;; esac; "#,
    r#"chmod 700 "$t" && mv "$t" "$k" || exit 9; fi; exec "$k" worker serve "$@""#,
);

/// The command for the other machine's shell. No word may hold a single quote.
pub(super) fn command(program: Option<&str>, hash: &str, words: &[String]) -> String {
    let quoted = |word: &str| format!(" '{word}'");
    let mut text = format!("exec sh -c '{SCRIPT}' kforge{}{}", quoted(program.unwrap_or("-")), quoted(hash));
    for word in words {
        text.push_str(&quoted(word));
    }
    text
}

/// Answers the script, until it starts the worker.
pub(super) fn introduce(
    from: &mut impl Read,
    to: &mut impl Write,
    host: &str,
    program: &dyn Fn() -> std::io::Result<Vec<u8>>,
    said: &dyn Fn(&str),
) -> anyhow::Result<()> {
    let line = marked_line(from)
        .with_context(|| format!("cannot start a shell on {host}: does `ssh {host} true` work from here?"))?;
    let words: Vec<&str> = line.split_whitespace().collect();
    let [os, machine, have] = words[..] else { bail!("{host} answered {line:?}: is its login shell a usual one?") };
    if have == "need" {
        check_machine(host, os, machine)?;
        let bytes = program().context("cannot read the program of this kforge")?;
        said(&format!("copying kforge to {host} ({} MiB, once)", bytes.len() >> 20));
        writeln!(to, "put {}", bytes.len())?;
        to.write_all(&bytes)?;
    } else {
        writeln!(to, "go 0")?;
    }
    to.flush()?;
    Ok(())
}

fn check_machine(host: &str, os: &str, machine: &str) -> anyhow::Result<()> {
    let own_os = if std::env::consts::OS == "macos" { "Darwin" } else { "Linux" };
    let same = |there: &str, here: &str| there == here || (there == "arm64" && here == "aarch64");
    if os != own_os || !same(machine, std::env::consts::ARCH) {
        bail!(
            "{host} is {os} {machine}, this kforge is for {own_os} {}: install kforge there and name it, --executor ssh:{host}:/path/to/kforge",
            std::env::consts::ARCH
        );
    }
    Ok(())
}

/// What follows the mark on its line. Byte by byte: what comes after the line belongs to somebody else.
fn marked_line(from: &mut impl Read) -> anyhow::Result<String> {
    let mut line = Vec::new();
    for _ in 0..MOST_NOISE {
        let mut byte = [0];
        if from.read(&mut byte)? == 0 {
            bail!("the connection ended");
        }
        if byte[0] != b'\n' {
            line.push(byte[0]);
            continue;
        }
        let text = String::from_utf8_lossy(&line).into_owned();
        if let Some((_, rest)) = text.split_once(MARK) {
            return Ok(rest.trim().to_owned());
        }
        line.clear();
    }
    bail!("its login shell prints too much")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn the_script_survives_every_quoting() {
        assert!(!SCRIPT.contains('\'') && !SCRIPT.contains('!') && !SCRIPT.contains('\n'));
    }

    /// The script itself, with this machine as the other one and a shell script as the program.
    #[test]
    fn a_program_is_put_once_and_checked() {
        let home = tempfile::tempdir().unwrap();
        let program = b"#!/bin/sh\necho started \"$@\"\n".to_vec();
        let hash = crate::job::sha256(&program);
        let start = |hash: &str| {
            let mut shell = Command::new("sh");
            shell.arg("-c").arg(command(None, hash, &["--python".to_owned(), "/a b".to_owned()]));
            shell.env("HOME", home.path()).env_remove("XDG_CACHE_HOME");
            shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
        };
        for round in 0..2 {
            let mut child = start(&hash);
            let (mut to, mut from) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
            let copied = std::cell::Cell::new(false);
            let read = || {
                copied.set(true);
                Ok(program.clone())
            };
            introduce(&mut from, &mut to, "here", &read, &|_| {}).unwrap();
            let mut rest = String::new();
            from.read_to_string(&mut rest).unwrap();
            assert_eq!(rest, "started worker serve --python /a b\n");
            assert_eq!(copied.get(), round == 0);
            child.wait().unwrap();
        }
        let mut child = start(&"0".repeat(64));
        let (mut to, mut from) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        introduce(&mut from, &mut to, "here", &|| Ok(program.clone()), &|_| {}).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(9));
        let left = std::fs::read_dir(home.path().join(".cache/kforge/bin").join("0".repeat(64))).unwrap();
        assert_eq!(left.count(), 0, "what arrived damaged is not kept");
    }

    #[test]
    fn another_machine_and_a_closed_door_are_named() {
        let mut out = Vec::new();
        let mut hello = |text: &str| {
            introduce(&mut text.as_bytes(), &mut out, "box", &|| Ok(Vec::new()), &|_| {}).map_err(|e| format!("{e:#}"))
        };
        let error = hello("Welcome!\nkforge-bootstrap Plan9 mips need\n").unwrap_err();
        assert!(error.contains("Plan9 mips") && error.contains("ssh:box:/path"), "{error}");
        assert!(hello("Permission denied\n").unwrap_err().contains("ssh box true"));
        assert!(hello("kforge-bootstrap Plan9 mips own\n").is_ok(), "a kforge that was named is the user's business");
    }
}
