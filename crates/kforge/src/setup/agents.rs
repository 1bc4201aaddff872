//! The models of the two agents, from the settings.

use crate::{
    config::{self, Resolved},
    driver::Task,
    models::{self, Models},
    run::file::RunFile,
    usage::Usage,
};
use std::path::PathBuf;

/// Nothing is sent yet.
pub(super) fn open_models(file: &RunFile, settings: &Resolved, task: &Task) -> anyhow::Result<Models> {
    let named = |name: Option<&str>| name.map(|name| models::placed(name, &|path| file.at(path)));
    let (generator, analyst) = (named(settings.search.generator()), named(settings.search.analyst()));
    let Some(generator) = generator else {
        if analyst.is_some() {
            let text = "--analyst-model alone is not enough: give --model, or --generator-model too";
            return Err(Usage(text.to_owned()).into());
        }
        let recorded = models::without_configuration(&task.name, &task.hash, &task.target.to_string())?;
        return Ok(Models { generator: recorded.clone(), analyst: recorded });
    };
    let user = config::user_dir(|name| std::env::var_os(name));
    let at = |path: &Option<PathBuf>| path.as_deref().map(|path| file.at(path));
    let registry = models::registry(at(&file.extras.models_file).as_deref(), user.as_deref())?;
    let record = at(&file.extras.record);
    let analyst = analyst.as_ref().unwrap_or(&generator);
    let open = |name: &str, asking: config::Asking| {
        models::open(name, &registry, record.as_deref(), asking.price.map(Into::into))
    };
    Ok(Models {
        generator: open(&generator, settings.search.asking_generator())?,
        analyst: open(analyst, settings.search.asking_analyst())?,
    })
}

/// A cap in dollars that cannot be checked is none.
pub(super) fn check_prices(models: &Models, no_analyst: bool) -> Result<(), Usage> {
    for opened in [&models.generator, &models.analyst].into_iter().take(if no_analyst { 1 } else { 2 }) {
        if opened.prices.is_none() && !opened.recorded {
            let text = format!(
                "--budget-usd cannot hold: the price of {} is not known; give --price INPUT,OUTPUT in dollars per million tokens, or use --budget-tokens",
                opened.model.name()
            );
            return Err(Usage(text));
        }
    }
    Ok(())
}
