//! Whose kernel is it? By the names that tools print, mangled or not.

use super::super::ladder::quoted;

/// Longest pattern that is put on a command line.
const LONGEST_PATTERN: usize = 8000;

/// Parts of the names of kernels that frameworks and vendor libraries bring along.
const FRAMEWORK: [&str; 24] = [
    "at::native",
    "2at6native",
    "at_cuda_detail",
    "at::cuda",
    "2at4cuda",
    "c10::",
    "cublas",
    "cudnn",
    "cusparse",
    "cufft",
    "curand",
    "nccl",
    "xmma_",
    "_sgemm_",
    "_gemm_",
    "gemmk1_kernel",
    "gemv2",
    "splitKreduce",
    "dot_kernel",
    "reduce_1Block",
    "cask_",
    "nvjet_",
    "implicit_convolve",
    "pytorch_flash",
];

/// Whether nobody but a framework names kernels like this. What the candidate itself built is asked for first.
pub(super) fn is_framework(name: &str) -> bool {
    let start = ["Memcpy ", "Memset ", "ampere_", "turing_", "volta_", "sm80_", "sm86_", "sm89_", "sm90_", "sm100_"];
    start.iter().any(|prefix| name.starts_with(prefix)) || FRAMEWORK.iter().any(|part| name.contains(part))
}

/// The function's own name: of `_ZN3foo3barIfEEvPT_` and of `void foo::bar<float>(float*)` it is `bar`.
pub(super) fn plain(name: &str) -> String {
    let found = if name.starts_with("_Z") { demangled(name) } else { declared(name) };
    quoted(found.unwrap_or(name), 80)
}

/// The last name of a nested one, as the C++ ABI writes it: numbers of characters, then the characters.
fn demangled(name: &str) -> Option<&str> {
    let mut rest = name.strip_prefix("_Z")?;
    rest = rest.strip_prefix('N').unwrap_or(rest);
    rest = rest.trim_start_matches(['r', 'V', 'K', 'L']);
    let mut last = None;
    loop {
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let Ok(length) = rest[..digits].parse::<usize>() else { return last };
        let Some((part, after)) =
            digits.checked_add(length).and_then(|end| Some((rest.get(digits..end)?, rest.get(end..)?)))
        else {
            return last;
        };
        last = Some(part);
        rest = after;
    }
}

fn declared(name: &str) -> Option<&str> {
    // Hidden names are behind a parenthesis that is none of a parameter list.
    let name = name.rsplit_once("(anonymous namespace)::").map_or(name, |(_, rest)| rest);
    let head = &name[..name.find(['<', '(']).unwrap_or(name.len())];
    let head = head.trim_end();
    let last = head.rsplit([' ', ':']).next()?;
    (!last.is_empty()).then_some(last)
}

/// A pattern that matches exactly these mangled names; none where there are none, or too many for a command line.
pub(super) fn pattern(names: &[String]) -> Option<String> {
    let usable =
        |name: &&String| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "_$.".contains(c));
    let escaped: Vec<String> =
        names.iter().filter(usable).map(|name| name.replace('.', "\\.").replace('$', "\\$")).collect();
    let made = format!("regex:^({})$", escaped.join("|"));
    (!escaped.is_empty() && made.len() <= LONGEST_PATTERN).then_some(made)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn framework_kernels_are_told_from_own_ones() {
        for name in [
            "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>(int)",
            "_ZN2at6native29vectorized_elementwise_kernelILi4E",
            "ampere_sgemm_128x64_nn",
            "sm90_xmma_gemm_f32f32_tf32f32",
            "void cublasLt::splitKreduce_kernel<32>",
            "nvjet_tst_128x64",
            "Memcpy DtoD (Device -> Device)",
        ] {
            assert!(is_framework(name), "{name}");
        }
        for name in ["_Z7softmaxPKfPfi", "gemm", "triton_softmax", "kernel_cutlass_kernel___main__Gemm", "layernorm<4>"]
        {
            assert!(!is_framework(name), "{name}");
        }
    }

    #[test]
    fn names_are_short_for_people() {
        for (name, short) in [
            ("_Z7softmaxPKfPfi", "softmax"),
            ("_ZN3foo3barIfEEvPT_", "bar"),
            ("void foo::bar<float, 4>(float*, int)", "bar"),
            ("void (anonymous namespace)::scale<4>(float*)", "scale"),
            ("gemm", "gemm"),
            ("_Z999x", "_Z999x"),
            ("_Z", "_Z"),
            ("", ""),
        ] {
            assert_eq!(plain(name), short, "{name}");
        }
        let hidden = "_GLOBAL__N__0b8e4b2d_9_kernel_cu_1a2b3c4d";
        assert_eq!(plain(&format!("_ZN{}{hidden}6kernelEPf", hidden.len())), "kernel");
        assert_eq!(plain("_Z18446744073709551615a"), "_Z18446744073709551615a");
        assert!(plain(&"_Z99999999999999999999a".repeat(50)).len() < 100);
        assert_eq!(plain("\u{1b}[2Jx\u{e9}"), quoted("\u{1b}[2Jx\u{e9}", 80));
    }

    #[test]
    fn a_pattern_matches_whole_names_and_refuses_nonsense() {
        let names = ["_Z1aPf".to_owned(), "k.1".to_owned(), "a b|c".to_owned()];
        assert_eq!(pattern(&names).unwrap(), "regex:^(_Z1aPf|k\\.1)$");
        assert_eq!(pattern(&[]), None);
        assert_eq!(pattern(&["x".repeat(9000)]), None);
    }
}
