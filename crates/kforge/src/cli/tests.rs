//! Help texts, word for word.

use super::Cli;
use clap::{Command, CommandFactory};

fn assert_help(path: &str, command: &Command) {
    let mut shown = command.clone().term_width(110);
    insta::assert_snapshot!(path.replace(' ', "_"), shown.render_long_help().to_string());
    for inner in command.get_subcommands().filter(|inner| inner.get_name() != "help") {
        assert_help(&format!("{path} {}", inner.get_name()), inner);
    }
}

#[test]
fn every_command_has_its_help() {
    let mut command = Cli::command();
    command.build();
    command = command.version("0.0.0");
    assert_help("kforge", &command);
}

#[test]
fn the_command_line_is_sound() {
    Cli::command().debug_assert();
}
