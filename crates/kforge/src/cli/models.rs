//! `kforge models`: what is known of models, and whether one answers.

use super::{Usage, printer::Printer};
use crate::{config, models, view};
use clap::{Args, Subcommand};
use kforge_models::{Effort, Label, Request, Speaker, Turn, Unwatched};
use std::path::PathBuf;

/// List models, or test one.
#[derive(Args)]
pub(crate) struct ModelsArgs {
    #[command(subcommand)]
    action: Option<Action>,
    /// More models, in the form of the built-in registry [default: models.toml in the configuration folder].
    #[arg(long, value_name = "FILE", global = true)]
    models_file: Option<PathBuf>,
}

#[derive(Subcommand)]
enum Action {
    /// Make one small call and say what came back, what it cost and how long it took.
    Test {
        /// A name of the registry, PROVIDER:NAME, or mailbox:DIR.
        name: String,
    },
}

pub(crate) fn models(args: &ModelsArgs, printer: &Printer) -> anyhow::Result<u8> {
    let user = config::user_dir(|name| std::env::var_os(name));
    let registry = models::registry(args.models_file.as_deref(), user.as_deref())?;
    let Some(Action::Test { name }) = &args.action else {
        printer.answer(&view::models(&registry, Printer::width()));
        return Ok(0);
    };
    let opened = models::open(name, &registry, None, None)?;
    if let Some(assumed) = &opened.assumed {
        printer.note(&format!("kforge: {assumed}"));
    }
    printer.working(&format!("asking {name}"));
    let request = Request {
        label: Label {
            problem: "test".to_owned(),
            problem_hash: String::new(),
            target: "none".to_owned(),
            role: "test".to_owned(),
            ordinal: 1,
        },
        system: "You answer in one short sentence.".to_owned(),
        turns: vec![Turn { speaker: Speaker::User, text: "Say that you are ready.".to_owned() }],
        images: Vec::new(),
        max_output_tokens: Some(512),
        temperature: None,
        effort: None::<Effort>,
    };
    let reply = opened.model.ask(&request, &Unwatched).map_err(|error| Usage(error.text))?;
    printer.idle();
    printer.answer(&view::model_reply(name, &reply));
    Ok(0)
}
