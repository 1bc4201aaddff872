//! What Nsight Compute wrote: a table with a row for each launch, between lines of messages.

use super::{super::ladder::quoted, tool::first_error};
use std::collections::{BTreeMap, BTreeSet};

const MOST_LAUNCHES: usize = 64;
const MOST_COLUMNS: usize = 8000;
const LONGEST_LINE: usize = 1 << 20;

/// One launch of one kernel.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Launch {
    pub(super) kernel: String,
    /// In base units: bytes, nanoseconds, percent.
    pub(super) values: BTreeMap<String, f64>,
}

/// Everything that was said.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Log {
    pub(super) launches: Vec<Launch>,
    /// Metrics that it does not know on this chip.
    pub(super) unknown: Vec<String>,
    /// Metrics that it listed without a number for any launch.
    pub(super) empty: Vec<String>,
    /// Metrics that it listed.
    pub(super) columns: BTreeSet<String>,
    pub(super) errors: Vec<String>,
    /// Kernels that ran while none fitted the filter.
    pub(super) available: Vec<String>,
    pub(super) connected: bool,
}

impl Log {
    /// Which of the metrics that were asked for this chip does not have: newer versions leave them out without a word.
    pub(super) fn lacks(&self, asked: &[&str]) -> Vec<String> {
        let left_out = asked.iter().filter(|name| !self.launches.is_empty() && !self.columns.contains(**name));
        let left_out = left_out.map(|name| (*name).to_owned());
        self.unknown.iter().chain(&self.empty).cloned().chain(left_out).collect()
    }
}

pub(super) fn parse(text: &str) -> Log {
    let mut log = Log::default();
    let mut table = Table::default();
    let mut listing = false;
    for line in text.lines().filter(|line| line.len() <= LONGEST_LINE) {
        let line = line.trim_end();
        if let Some(error) = line.strip_prefix("==ERROR==") {
            log.unknown.extend(unknown_metric(error));
            if log.errors.len() < 20 {
                log.errors.push(quoted(error, 300));
            }
            listing = false;
        } else if line.starts_with("==") {
            log.connected |= line.starts_with("==PROF== Connected");
            listing = false;
        } else if line.trim() == "Available Kernels:" {
            listing = true;
        } else if listing {
            let named = line.trim().split_once(". ").filter(|(number, _)| number.parse::<u32>().is_ok());
            log.available.extend(named.map(|(_, name)| quoted(name, 300)).filter(|_| log.available.len() < 100));
        } else if line.starts_with('"') {
            table.line(&fields(line));
        }
    }
    log.empty = table.empty();
    log.columns = table.seen;
    log.launches = table.launches;
    log.unknown.sort();
    log.unknown.dedup();
    log
}

/// `Failed to find metric a.sum`, or a regular expression for the ends of a name.
fn unknown_metric(error: &str) -> Option<String> {
    let name = error.split("Failed to find metric").nth(1)?.trim();
    let name = name.strip_prefix("regex:^").unwrap_or(name);
    let name = name.split("\\.(").next().unwrap_or(name).split(".(").next().unwrap_or(name);
    let plain: String = name.replace('\\', "").trim_matches(['"', '\'', '$', '^', ' ']).to_owned();
    let plain = plain.split_whitespace().next().unwrap_or_default().to_owned();
    (!plain.is_empty()).then_some(plain)
}

/// The table as it grows. Either one column for each metric with units in the first row, or one row for each metric.
#[derive(Default)]
struct Table {
    header: Vec<String>,
    units: Vec<String>,
    launches: Vec<Launch>,
    ids: Vec<String>,
    seen: BTreeSet<String>,
}

impl Table {
    fn line(&mut self, fields: &[String]) {
        if fields.first().is_some_and(|first| first == "ID") {
            *self = Self { header: fields.to_vec(), launches: std::mem::take(&mut self.launches), ..Self::default() };
            return;
        }
        let Some(kernel) = self.column("Kernel Name").and_then(|at| fields.get(at)) else { return };
        if let (Some(name), Some(value)) = (self.column("Metric Name"), self.column("Metric Value")) {
            let unit = self.column("Metric Unit").and_then(|at| fields.get(at)).cloned().unwrap_or_default();
            let (Some(id), Some(name), Some(value)) = (fields.first(), fields.get(name), fields.get(value)) else {
                return;
            };
            let place = match self.ids.iter().position(|known| known == id) {
                Some(place) => place,
                None if self.launches.len() < MOST_LAUNCHES => {
                    self.ids.push(id.clone());
                    self.launches.push(Launch { kernel: kernel.clone(), ..Launch::default() });
                    self.launches.len() - 1
                }
                None => return,
            };
            self.seen.insert(name.clone());
            let number = number(value, &unit);
            self.launches[place].values.extend(number.map(|number| (name.clone(), number)));
            return;
        }
        if fields.first().is_some_and(String::is_empty) {
            self.units = fields.to_vec();
            return;
        }
        if self.launches.len() >= MOST_LAUNCHES {
            return;
        }
        let mut launch = Launch { kernel: kernel.clone(), ..Launch::default() };
        let columns = self.header.iter().zip(fields).enumerate().take(MOST_COLUMNS);
        for (at, (name, value)) in columns.filter(|(_, (name, _))| name.contains("__")) {
            let unit = self.units.get(at).map_or("", String::as_str);
            launch.values.extend(number(value, unit).map(|number| (name.clone(), number)));
        }
        self.seen.extend(self.header.iter().filter(|name| name.contains("__")).cloned());
        self.launches.push(launch);
    }

    fn column(&self, name: &str) -> Option<usize> {
        self.header.iter().position(|column| column == name)
    }

    fn empty(&self) -> Vec<String> {
        let has = |name: &&String| !self.launches.iter().any(|launch| launch.values.contains_key(*name));
        self.seen.iter().filter(has).cloned().collect()
    }
}

/// In base units, whatever unit was printed.
fn number(text: &str, unit: &str) -> Option<f64> {
    let value: f64 = text.replace(',', "").trim().parse().ok()?;
    let first = unit.split('/').next().unwrap_or_default();
    let scale = match first {
        "Kbyte" | "KB" | "usecond" | "us" => 1e3,
        "Mbyte" | "MB" | "msecond" | "ms" => 1e6,
        "Gbyte" | "GB" | "second" | "s" => 1e9,
        "Tbyte" | "TB" => 1e12,
        _ => 1.0,
    };
    let per = match unit.split('/').nth(1).unwrap_or_default() {
        "nsecond" | "ns" => 1e9,
        "usecond" | "us" => 1e6,
        "msecond" | "ms" => 1e3,
        _ => 1.0,
    };
    (value.is_finite()).then_some(value * scale * per)
}

/// Fields between commas; quotes are doubled inside of quoted ones.
fn fields(line: &str) -> Vec<String> {
    let mut made = Vec::new();
    let mut field = String::new();
    let mut inside = false;
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '"' if inside && letters.peek() == Some(&'"') => {
                letters.next();
                field.push('"');
            }
            '"' => inside = !inside,
            ',' if !inside => {
                made.push(std::mem::take(&mut field));
                if made.len() >= MOST_COLUMNS {
                    return made;
                }
            }
            other => field.push(other),
        }
    }
    made.push(field);
    made
}

/// Why there are no numbers, and what would mend it.
pub(super) fn denied(log: &Log, output: &str, timed_out: bool, limit_s: u64) -> String {
    let said = format!("{} {output}", log.errors.join(" "));
    let has = |text: &str| said.contains(text);
    if has("ERR_NVGPUCTRPERM") {
        return "this user may not read the GPU's counters (ERR_NVGPUCTRPERM): load the nvidia kernel module with \
                NVreg_RestrictProfilingToAdminUsers=0; to be root does not help, since candidates run without rights"
            .to_owned();
    }
    if has("LibraryNotLoaded") || has("Cuda driver is not compatible") || has("driver is not compatible") {
        return "Nsight Compute cannot load its counters library for this driver: install a version of Nsight Compute \
                that fits the driver"
            .to_owned();
    }
    if has("driver resource was unavailable") {
        return "another tool holds the GPU's counters (DCGM, or a second profiler): stop it, for example with \
                `dcgmi profile --pause`"
            .to_owned();
    }
    if timed_out {
        return format!("Nsight Compute took more than {limit_s} s; give it longer, or a smaller problem");
    }
    if has("Failed to prepare kernel for profiling") || has("OutOfMemory") || has("out of memory") {
        return "there is not enough GPU memory to run the kernels again and again; use a smaller problem".to_owned();
    }
    if let Some(error) = log.errors.first() {
        return format!("Nsight Compute says: {error}");
    }
    if !log.connected {
        return format!("Nsight Compute never reached the process that it started: {}", first_error(output));
    }
    if log.available.is_empty() {
        return "no kernel ran on the GPU during the call".to_owned();
    }
    format!("none of the candidate's own kernels ran; these did: {}", quoted(&log.available.join(", "), 200))
}

#[cfg(test)]
mod tests;
