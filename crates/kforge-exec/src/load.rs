//! What others do with this machine's processors, and what a hypervisor takes of them.

use std::time::Duration;

/// Time of all processors together since the machine started, in ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ticks {
    busy: u64,
    stolen: u64,
    all: u64,
}

impl Ticks {
    /// Nothing where the system does not tell.
    pub(crate) fn now() -> Option<Self> {
        Self::parse(&std::fs::read_to_string("/proc/stat").ok()?)
    }

    fn parse(text: &str) -> Option<Self> {
        let mut fields = text.lines().next()?.strip_prefix("cpu ")?.split_whitespace();
        let mut next = || fields.next()?.parse::<u64>().ok();
        let [user, nice, system, idle, waiting, irq, softirq] =
            [next()?, next()?, next()?, next()?, next()?, next()?, next()?];
        let stolen = next().unwrap_or_default();
        let busy = user + nice + system + irq + softirq;
        Some(Self { busy, stolen, all: busy + idle + waiting + stolen })
    }

    /// Shares of all processors since then: busy, and stolen.
    pub(crate) fn since(self, then: Self) -> (f64, f64) {
        let all = self.all.saturating_sub(then.all).max(1) as f64;
        (self.busy.saturating_sub(then.busy) as f64 / all, self.stolen.saturating_sub(then.stolen) as f64 / all)
    }
}

/// The system counts in ticks of ten milliseconds: a single one in a short while says nothing.
const GLANCE: Duration = Duration::from_millis(60);
const LOOK: Duration = Duration::from_millis(300);

/// The share of all processors that others use or a hypervisor takes, seen over a while in which nothing of ours runs: a
/// short one, and a longer one where somebody seems to be there.
pub(crate) fn foreign() -> Option<f64> {
    let then = Ticks::now()?;
    std::thread::sleep(GLANCE);
    let now = Ticks::now()?;
    if (now.busy + now.stolen).saturating_sub(then.busy + then.stolen) < 2 {
        return Some(0.0);
    }
    std::thread::sleep(LOOK);
    let (busy, stolen) = Ticks::now()?.since(then);
    Some(busy + stolen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_and_stolen_time_are_told_apart() {
        let then = Ticks::parse("cpu  100 0 50 800 10 5 5 30 0 0\ncpu0 1 2 3\n").unwrap();
        let now = Ticks::parse("cpu  140 0 60 840 10 5 5 40 0 0\n").unwrap();
        let (busy, stolen) = now.since(then);
        assert!((busy - 0.5).abs() < 1e-9 && (stolen - 0.1).abs() < 1e-9, "{busy} {stolen}");
        assert_eq!(then.since(then), (0.0, 0.0));
        assert!(Ticks::parse("cpu0 1 2").is_none() && Ticks::parse("").is_none());
        assert!(Ticks::parse("cpu  1 2 3 4 5 6 7").is_some(), "old systems do not tell what is stolen");
    }
}
