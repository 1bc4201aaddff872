//! The exact commands that mend an interpreter.

use super::{PythonEnv, PythonRequest, REQUIREMENTS};
use crate::process::find_program;
use std::path::Path;

/// What decides how packages get into an interpreter.
pub(crate) struct Interpreter<'a> {
    pub(crate) executable: &'a Path,
    pub(crate) pip: bool,
    pub(crate) externally_managed: bool,
    pub(crate) uv: bool,
}

impl<'a> Interpreter<'a> {
    pub(crate) fn of(env: &'a PythonEnv, request: &PythonRequest) -> Self {
        Self {
            executable: &env.executable,
            pip: env.pip,
            externally_managed: env.externally_managed,
            uv: find_program("uv", &request.path).is_some(),
        }
    }

    /// The command alone. An interpreter that its distribution guards gets an environment beside it.
    pub(crate) fn command(&self, packages: &str) -> String {
        let python = shell_word(&self.executable.to_string_lossy());
        if self.externally_managed {
            format!(
                "{python} -m venv --system-site-packages kforge-env && kforge-env/bin/python -m pip install {packages}"
            )
        } else if self.pip {
            format!("{python} -m pip install --upgrade {packages}")
        } else if self.uv {
            format!("uv pip install --upgrade --python {python} {packages}")
        } else {
            format!("{python} -m ensurepip && {python} -m pip install --upgrade {packages}")
        }
    }

    /// The command as advice: `run ...`.
    pub(crate) fn install(&self, packages: &str) -> String {
        let then = if self.externally_managed { " and name kforge-env/bin/python instead" } else { "" };
        format!("run `{}`{then}", self.command(packages))
    }
}

/// What the harness needs, as words of a shell command.
pub(crate) fn requirement_words() -> String {
    REQUIREMENTS.map(shell_word).join(" ")
}

/// `text` as one word of a shell command.
pub(crate) fn shell_word(text: &str) -> String {
    if text.chars().all(|c| c.is_ascii_alphanumeric() || "/._-+=:@,".contains(c)) && !text.is_empty() {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_interpreter_gets_its_own_command() {
        let case = |pip, externally_managed, uv| {
            Interpreter { executable: Path::new("/a b/python"), pip, externally_managed, uv }.command("triton")
        };
        assert_eq!(case(true, false, true), "'/a b/python' -m pip install --upgrade triton");
        assert_eq!(case(false, false, true), "uv pip install --upgrade --python '/a b/python' triton");
        assert!(case(false, false, false).starts_with("'/a b/python' -m ensurepip && "));
        assert!(case(true, true, true).contains("-m venv --system-site-packages kforge-env && "));
    }

    #[test]
    fn words_are_quoted_when_needed() {
        assert_eq!(shell_word("torch>=2.4"), "'torch>=2.4'");
        assert_eq!(shell_word("it's"), r"'it'\''s'");
        assert_eq!(shell_word("/usr/bin/python3"), "/usr/bin/python3");
    }
}
