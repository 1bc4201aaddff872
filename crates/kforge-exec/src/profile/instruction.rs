//! One line of disassembly, and what it means for speed.

/// Which assembly language.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Arch {
    X86,
    Arm,
}

/// What an instruction does, as far as it matters here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind {
    /// Floating-point arithmetic on a vector.
    Packed,
    /// Floating-point arithmetic on one number.
    Scalar,
    Gather,
    Scatter,
    /// Of a named function.
    Call(String),
    Other,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Instruction {
    pub(super) address: u64,
    pub(super) kind: Kind,
    pub(super) fma: bool,
    /// A vector register is written to the stack.
    pub(super) spill: bool,
    /// Bits of the widest vector register it names; 0 for none and for scalable ones.
    pub(super) width: u32,
    /// Names a register whose width the code does not know (SVE).
    pub(super) scalable: bool,
    pub(super) jump: Option<u64>,
}

impl Instruction {
    /// `    1134:\tvmovups (%rdi),%zmm0`
    pub(super) fn parse(line: &str, arch: Arch) -> Option<Self> {
        let (address, rest) = line.trim_start().split_once(':')?;
        let address = u64::from_str_radix(address, 16).ok()?;
        let rest = rest.trim();
        let (mnemonic, operands) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        // Prefixes such as `bnd` and `notrack` stand in front of jumps and calls.
        let (mnemonic, operands) = match mnemonic {
            "bnd" | "notrack" | "lock" | "rep" | "repz" => operands.trim().split_once(' ').unwrap_or((operands, "")),
            _ => (mnemonic, operands),
        };
        let operands = operands.split(" # ").next().unwrap_or_default().trim();
        Some(match arch {
            Arch::X86 => x86(address, mnemonic, operands),
            Arch::Arm => arm(address, mnemonic, operands),
        })
    }
}

fn x86(address: u64, mnemonic: &str, operands: &str) -> Instruction {
    let plain = mnemonic.strip_prefix('v').unwrap_or(mnemonic);
    let fma = ["fmadd", "fmsub", "fnmadd", "fnmsub"].iter().any(|start| plain.starts_with(start));
    let float = fma
        || ["add", "sub", "mul", "div", "sqrt", "max", "min", "rcp", "rsqrt"]
            .iter()
            .any(|start| plain.starts_with(start));
    let kind = if mnemonic.starts_with("call") {
        Kind::Call(callee(operands))
    } else if plain.starts_with("gather") || plain.starts_with("pgather") {
        Kind::Gather
    } else if plain.starts_with("scatter") || plain.starts_with("pscatter") {
        Kind::Scatter
    } else if float && (plain.ends_with("ps") || plain.ends_with("pd") || plain.ends_with("ph")) {
        Kind::Packed
    } else if float && (plain.ends_with("ss") || plain.ends_with("sd") || plain.ends_with("sh")) {
        Kind::Scalar
    } else {
        Kind::Other
    };
    let width = if operands.contains("%zmm") {
        512
    } else if operands.contains("%ymm") {
        256
    } else if operands.contains("%xmm") {
        128
    } else {
        0
    };
    // AT&T order: what is written stands last.
    let stored = operands.ends_with("(%rsp)") || operands.ends_with("(%rbp)");
    Instruction {
        address,
        fma,
        spill: width > 0 && stored && plain.starts_with("mov"),
        // Scalars live in the low part of a vector register: they are no vectors.
        width: if kind == Kind::Packed { width } else { 0 },
        scalable: false,
        jump: mnemonic.starts_with('j').then(|| target(operands)).flatten(),
        kind,
    }
}

fn arm(address: u64, mnemonic: &str, operands: &str) -> Instruction {
    let scalable = registers(operands, 'z');
    let neon = registers(operands, 'v');
    let fma = ["fmla", "fmls", "fmadd", "fmsub", "fnmadd", "fnmsub", "fmad", "fmsb"].contains(&mnemonic);
    let float = fma
        || ["fadd", "fsub", "fmul", "fdiv", "fsqrt", "fmax", "fmin", "fnmul", "frecp", "frsqrt"]
            .iter()
            .any(|start| mnemonic.starts_with(start));
    let indexed = operands.rsplit_once('[').is_some_and(|(_, place)| registers(place, 'z'));
    let kind = if mnemonic == "bl" || mnemonic == "blr" {
        Kind::Call(callee(operands))
    } else if indexed && mnemonic.starts_with("ld1") {
        Kind::Gather
    } else if indexed && mnemonic.starts_with("st1") {
        Kind::Scatter
    } else if float && (neon || scalable) {
        Kind::Packed
    } else if float {
        Kind::Scalar
    } else {
        Kind::Other
    };
    let stack = operands.contains("[sp") || operands.contains("[x29");
    let register = operands.trim_start_matches('{').starts_with(['q', 'd', 's', 'v', 'z']);
    let jumps = mnemonic == "b" || mnemonic.starts_with("b.") || ["cbz", "cbnz", "tbz", "tbnz"].contains(&mnemonic);
    Instruction {
        address,
        fma,
        spill: stack && register && mnemonic.starts_with("st"),
        width: if kind == Kind::Packed && neon { 128 } else { 0 },
        scalable,
        jump: jumps.then(|| target(operands)).flatten(),
        kind,
    }
}

/// Whether an operand is a register of this file with a lane type, such as `v0.4s` or `z3.s`.
fn registers(operands: &str, file: char) -> bool {
    operands.split([',', ' ', '{', '}', '[', ']']).any(|word| {
        word.strip_prefix(file)
            .and_then(|rest| rest.split_once('.'))
            .is_some_and(|(number, _)| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
    })
}

/// `1050 <expf@plt>` gives `expf`.
fn callee(operands: &str) -> String {
    let name = operands.split_once('<').map_or("", |(_, rest)| rest);
    name.split(['@', '>', '+']).next().unwrap_or_default().chars().take(80).collect()
}

/// The address in `1134 <softmax+0x20>` or `w0, 1134 <softmax+0x20>`.
fn target(operands: &str) -> Option<u64> {
    let before = operands.split('<').next()?.trim();
    let word = before.rsplit([' ', ',']).next()?;
    u64::from_str_radix(word.trim_start_matches("0x"), 16).ok()
}
