//! The system-call filter of cells, compiled here and installed by the harness just before hostile code is loaded.
//!
//! Two programs, because one has one answer: what is refused (`EPERM`), and what must look absent so that libc
//! falls back to a call that can be inspected (`clone3`, whose flags lie in memory that a filter cannot read).

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule, TargetArch,
};
use std::collections::BTreeMap;

const EPERM: u32 = 1;
const ENOSYS: u32 = 38;
const AF_UNIX: u64 = 1;
const F_SETSIG: u64 = 10;
/// `CLONE_NEW*`: namespaces that a cell must not make for itself.
const CLONE_NEW: [u64; 8] =
    [0x0002_0000, 0x0200_0000, 0x0400_0000, 0x0800_0000, 0x1000_0000, 0x2000_0000, 0x4000_0000, 0x80];

/// System-call numbers of one architecture.
struct Numbers {
    arch: TargetArch,
    refused: &'static [i64],
    socket: i64,
    clone: i64,
    clone3: i64,
    fcntl: i64,
    prlimit: i64,
}

// ptrace, process_vm_readv/writev, bpf, perf_event_open, mount, umount2, setns, unshare, keyctl, add_key, request_key,
// userfaultfd, io_uring_*, init/finit/delete_module, kexec_load, open_by_handle_at, pidfd_getfd, pivot_root, chroot,
// swapon/off, reboot, settimeofday, clock_settime, adjtimex, acct, quotactl, kcmp, process_madvise, new mount API,
// memfd_create and shmget (memory that belongs to no process is hard to count), timer_create and mq_notify (a process that
// was stopped could have itself woken by a signal), sched_setattr (whoever has short slices is let in before others).
const X86_64: &[i64] = &[
    101, 310, 311, 321, 298, 165, 166, 308, 272, 250, 248, 249, 323, 425, 426, 427, 175, 313, 176, 246, 304, 438, 155,
    161, 167, 168, 169, 164, 227, 159, 163, 179, 312, 440, 428, 429, 430, 431, 432, 433, 442, 319, 29, 222, 244, 314,
];
const AARCH64: &[i64] = &[
    117, 270, 271, 280, 241, 40, 39, 268, 97, 219, 217, 218, 282, 425, 426, 427, 105, 273, 106, 104, 265, 438, 41, 51,
    224, 225, 142, 170, 112, 171, 89, 60, 272, 440, 428, 429, 430, 431, 432, 433, 442, 279, 194, 107, 184, 274,
];

fn numbers() -> Option<Numbers> {
    if cfg!(target_arch = "x86_64") {
        Some(Numbers {
            arch: TargetArch::x86_64,
            refused: X86_64,
            socket: 41,
            clone: 56,
            clone3: 435,
            fcntl: 72,
            prlimit: 302,
        })
    } else if cfg!(target_arch = "aarch64") {
        Some(Numbers {
            arch: TargetArch::aarch64,
            refused: AARCH64,
            socket: 198,
            clone: 220,
            clone3: 435,
            fcntl: 25,
            prlimit: 261,
        })
    } else {
        None
    }
}

/// Whose filter it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum For {
    /// Whoever loads hostile code, and nothing else.
    Cells,
    /// A profiler with what it starts: they talk over network sockets, in a network namespace of their own.
    Tools,
}

/// The compiled programs as bytes; empty where this architecture has no table, which lowers the sandbox level.
#[must_use]
pub(crate) fn programs(whose: For) -> Vec<Vec<u8>> {
    if !cfg!(target_os = "linux") {
        return Vec::new();
    }
    let mut programs = numbers().and_then(|numbers| compile(&numbers, whose).ok()).unwrap_or_default();
    if cfg!(target_arch = "x86_64") && !programs.is_empty() {
        programs.push(refuse_x32());
    }
    programs
}

/// The x32 ABI has the same calls under other numbers, which the tables above do not name.
fn refuse_x32() -> Vec<u8> {
    const LOAD_NUMBER: (u16, u8, u8, u32) = (0x20, 0, 0, 0);
    const IF_X32: (u16, u8, u8, u32) = (0x35, 0, 1, 0x4000_0000);
    const REFUSE: (u16, u8, u8, u32) = (0x06, 0, 0, 0x0005_0000 | EPERM);
    const ALLOW: (u16, u8, u8, u32) = (0x06, 0, 0, 0x7FFF_0000);
    let mut bytes = Vec::new();
    for (code, jump_true, jump_false, operand) in [LOAD_NUMBER, IF_X32, REFUSE, ALLOW] {
        bytes.extend(u16::to_ne_bytes(code));
        bytes.extend([jump_true, jump_false]);
        bytes.extend(u32::to_ne_bytes(operand));
    }
    bytes
}

fn compile(numbers: &Numbers, whose: For) -> Result<Vec<Vec<u8>>, seccompiler::BackendError> {
    let mut refused: BTreeMap<i64, Vec<SeccompRule>> = numbers.refused.iter().map(|&n| (n, Vec::new())).collect();
    if whose == For::Cells {
        let not_unix = SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, AF_UNIX)?;
        refused.insert(numbers.socket, vec![SeccompRule::new(vec![not_unix])?]);
    }
    // A descriptor that sends a signal of one's choice wakes who was stopped, too.
    let chooses_signal = SeccompCondition::new(1, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, F_SETSIG)?;
    refused.insert(numbers.fcntl, vec![SeccompRule::new(vec![chooses_signal])?]);
    // Limits of others: a supervisor that may open nothing any more takes the evaluation with it.
    let of_another = SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, 0)?;
    refused.insert(numbers.prlimit, vec![SeccompRule::new(vec![of_another])?]);
    let mut namespaces = Vec::new();
    for flag in CLONE_NEW {
        let bit = SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq(flag), flag)?;
        namespaces.push(SeccompRule::new(vec![bit])?);
    }
    refused.insert(numbers.clone, namespaces);
    let absent = BTreeMap::from([(numbers.clone3, Vec::new())]);
    [(absent, ENOSYS), (refused, EPERM)]
        .into_iter()
        .map(|(rules, code)| {
            let filter = SeccompFilter::new(rules, SeccompAction::Allow, SeccompAction::Errno(code), numbers.arch)?;
            let program: BpfProgram = filter.try_into()?;
            Ok(to_bytes(&program))
        })
        .collect()
}

fn to_bytes(program: &BpfProgram) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(program.len() * 8);
    for instruction in program {
        bytes.extend(instruction.code.to_ne_bytes());
        bytes.extend([instruction.jt, instruction.jf]);
        bytes.extend(instruction.k.to_ne_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
    fn all_programs_compile_to_whole_instructions() {
        for whose in [For::Cells, For::Tools] {
            let programs = programs(whose);
            assert_eq!(programs.len(), if cfg!(target_arch = "x86_64") { 3 } else { 2 });
            assert!(programs.iter().all(|program| !program.is_empty() && program.len() % 8 == 0));
        }
        assert_ne!(programs(For::Cells), programs(For::Tools));
    }
}
