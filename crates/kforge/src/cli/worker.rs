//! `kforge worker`: evaluate for others.

use super::{OWN_FAILURE, Usage, printer::Printer};
use crate::{
    config::Span,
    evaluator::{Here, HereRequest},
    job::{
        Packed, Unfit,
        claim::{Answered, write_answer},
        exchange::Exchange,
    },
    view,
    worker::{Drain, Finished, Lost, Performer, Report, Worker, serve},
};
use anyhow::Context;
use clap::{Args, Subcommand};
use kforge_exec::{CacheDirs, nvidia};
use serde_json::json;
use std::{
    collections::BTreeMap,
    num::NonZeroUsize,
    path::{Path, PathBuf},
    sync::Mutex,
};

/// Evaluate for others: jobs from an exchange folder, or one job.
///
/// A worker needs this program and a Python with torch, no network and no files beside. What it
/// learns of a problem (truths, baselines, builds) stays in its cache for the next job.
///
/// On the machine without a GPU, where the language models are reached:
///
///   kforge eval problem.py candidate.py --executor exchange:/mnt/jobs
///
/// On the machine with one, which sees /mnt/jobs too, or has it copied there and back:
///
///   kforge worker drain /mnt/jobs
///
/// Whoever can write into the folder can run code as the worker's user: problems are trusted,
/// candidates are not.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct WorkerArgs {
    #[command(subcommand)]
    command: WorkerCommand,
}

#[derive(Subcommand)]
enum WorkerCommand {
    Exec(ExecArgs),
    Drain(DrainArgs),
    #[command(hide = true)]
    Serve(ServeArgs),
}

#[derive(Args)]
struct HereArgs {
    /// Keep truths, baselines and builds here [default: KFORGE_CACHE_DIR, else the user's cache folder].
    #[arg(long, value_name = "DIR")]
    cache: Option<PathBuf>,
    /// The Python with torch [default: KFORGE_PYTHON, an active environment, python3, or one that kforge makes].
    #[arg(long)]
    python: Option<PathBuf>,
    /// Which GPU, counted from 0 among those that are visible [default: the first one, if there is any].
    #[arg(long)]
    device: Option<usize>,
}

/// Execute the job in one folder, and put result.json, log and profile into its folder out.
///
/// The folder holds job.json, problem.py, candidate.py and aux, with hashes that agree. Exit code as of `kforge eval`; 70
/// where the job is of a form that this kforge does not know, or the machinery failed.
#[derive(Args)]
struct ExecArgs {
    /// The job's folder.
    folder: PathBuf,
    #[command(flatten)]
    here: HereArgs,
    /// Print the answer as one JSON object.
    #[arg(long)]
    json: bool,
}

/// Execute all jobs that wait in an exchange folder.
///
/// A job is claimed by moving it from pending to claimed, and answered by moving it to done, so that any number of
/// workers may share a folder. Jobs of one problem are done one after the other, with one warm Python. A worker that
/// dies leaves its job to the next, a minute later. Folders that are half-copied are left alone.
///
/// One line for each job on stdout, and at the end what was done: jobs, seconds, and seconds in which the device
/// worked. Exit code: 0, or 70 where jobs were refused or the machinery failed on them; a wrong kernel is an answer.
#[derive(Args)]
struct DrainArgs {
    /// The exchange folder.
    folder: PathBuf,
    #[command(flatten)]
    here: HereArgs,
    /// Jobs at a time, each problem's jobs in a process of their own. They build side by side; on a device one is timed at a
    /// time, and nothing is checked meanwhile. Several GPUs are used in turns.
    #[arg(long, short, default_value = "1")]
    jobs: NonZeroUsize,
    /// Wait for more jobs instead of ending when there are none.
    #[arg(long)]
    watch: bool,
    /// Begin no job after this time: 90s, 30m, 2h, or a number of seconds.
    #[arg(long, alias = "limit-s", value_name = "TIME")]
    limit: Option<Span>,
    /// Print one JSON object for each job, and one at the end.
    #[arg(long)]
    json: bool,
    /// How long a worker may be silent before its job is given to another.
    #[arg(long, value_name = "TIME", default_value = "60s", hide = true)]
    lease: Span,
}

/// Talk with a kforge at the other end of standard input and output.
#[derive(Args)]
struct ServeArgs {
    #[command(flatten)]
    here: HereArgs,
}

pub(crate) fn worker(args: &WorkerArgs, printer: &Printer) -> anyhow::Result<u8> {
    match &args.command {
        WorkerCommand::Exec(args) => exec(args, printer),
        WorkerCommand::Drain(args) => drain(args, printer),
        WorkerCommand::Serve(args) => {
            let (here, cache) = args.here.find(printer)?;
            let exchange = Exchange::open(&cache.create("served").context("preparing the cache")?)?;
            serve(&exchange, &mut Worker::new(here, Lost::default()), std::io::stdin(), std::io::stdout())?;
            Ok(0)
        }
    }
}

impl HereArgs {
    fn find(&self, printer: &Printer) -> anyhow::Result<(Here, CacheDirs)> {
        let cache = match &self.cache {
            Some(folder) => CacheDirs::new(std::path::absolute(folder)?),
            None => CacheDirs::from_environment()?,
        };
        let request = HereRequest { python: self.python.clone(), cache: Some(cache.clone()), device: self.device };
        Ok((request.find(printer)?, cache))
    }
}

fn exec(args: &ExecArgs, printer: &Printer) -> anyhow::Result<u8> {
    let packed = Packed::read(&args.folder, None).map_err(|unfit| unusable(&args.folder, unfit))?;
    let (here, _) = args.here.find(printer)?;
    let (result, files) = Worker::new(here, Lost::default()).perform(&packed, printer);
    printer.idle();
    write_answer(&args.folder, &packed.job.id, &result, files)?;
    let text = if args.json { serde_json::to_string(&result)? } else { view::job(&packed.job, &result) };
    printer.answer(&text);
    Ok(view::job_exit_code(&result).unwrap_or(OWN_FAILURE))
}

fn unusable(folder: &Path, unfit: Unfit) -> anyhow::Error {
    match unfit {
        Unfit::Incomplete(text) => {
            Usage(format!("{} is not a whole job: {text}; copy it again", folder.display())).into()
        }
        Unfit::Refused { text, .. } => anyhow::anyhow!("{}: {text}", folder.display()),
    }
}

/// What came of one job.
fn tell(finished: &Finished<'_>, as_json: bool, printer: &Printer) {
    printer.idle();
    let (job, result) = (finished.job, finished.result);
    if finished.answered == Answered::TooLate {
        printer.note(&format!("kforge: {}: the claim had run out, and another worker has the job", job.id));
    }
    printer.answer(&if as_json {
        json!({ "job": job.id, "kind": job.work.kind.name(), "name": job.work.name, "final": result.is_final(), "delivered": finished.answered == Answered::Delivered,
                "seconds": result.seconds, "device_s": result.device_s(), "summary": result.summary() })
        .to_string()
    } else {
        view::job(job, result)
    });
}

fn drain(args: &DrainArgs, printer: &Printer) -> anyhow::Result<u8> {
    if !args.folder.is_dir() {
        let text =
            format!("there is no folder {}: name the one that --executor exchange: names", args.folder.display());
        return Err(Usage(text).into());
    }
    let exchange = Exchange::open(&args.folder)?.with_lease(args.lease.0);
    let (here, _) = args.here.find(printer)?;
    let gpus = nvidia::gpus().map_or(0, |gpus| gpus.len());
    let finished = |finished: &Finished<'_>| tell(finished, args.json, printer);
    let at_work = Mutex::default();
    let mut lost: BTreeMap<Option<usize>, Lost> = BTreeMap::new();
    let busy_before = kforge_exec::busy();
    let reports: Vec<anyhow::Result<Report>> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..args.jobs.get())
            .map(|number| {
                let (exchange, at_work, finished) = (&exchange, &at_work, &finished);
                // Several GPUs are used in turns, unless one was named.
                let device = here.device.or_else(|| (gpus > 1).then(|| number % gpus));
                let here = Here { device, ..here.clone() };
                let lost = lost.entry(device).or_default().clone();
                scope.spawn(move || {
                    let mut worker = Worker::new(here, lost);
                    let mut drain = Drain::new(exchange, &mut worker, printer, at_work);
                    let limit = args.limit.map(|limit| limit.0);
                    drain.run(args.watch, limit, &mut |one: &Finished<'_>| finished(one)).map(|()| drain.report)
                })
            })
            .collect();
        let ended = || Err(anyhow::anyhow!("a worker ended early; report it"));
        workers.into_iter().map(|worker| worker.join().unwrap_or_else(|_| ended())).collect()
    });
    printer.idle();
    let mut report = Report::default();
    for one in reports {
        report = report.together(one?);
    }
    report.device_s = kforge_exec::busy().saturating_sub(busy_before).as_secs_f64();
    for (id, why) in &report.left_alone {
        printer.note(&format!("kforge: left alone: {id}: {why}"));
    }
    for why in &report.out_of_use {
        printer.note(&format!("kforge: no more jobs were taken for it: {why}"));
    }
    let text = format!(
        "{} jobs, {} failed, {} refused, {} left alone; {:.1} s, {:.1} s of them on the device",
        report.jobs,
        report.failed,
        report.refused,
        report.left_alone.len(),
        report.wall_s,
        report.device_s
    );
    printer.answer(&if args.json { json!({ "report": report }).to_string() } else { text });
    Ok(if report.failed + report.refused + report.out_of_use.len() == 0 { 0 } else { OWN_FAILURE })
}
