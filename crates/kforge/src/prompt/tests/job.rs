//! What a generator is told of the user's wishes, the contract and the machine.

use super::*;

#[test]
fn what_the_user_bans_and_requires_is_told() {
    let prompts = prompts("cpu/cpp", Edits::default());
    let mut input = generator("cpu/cpp", GeneratorPass::First);
    assert!(!prompts.generator(&input).unwrap().user.contains("The user"));
    input.job.bans = vec!["torch.matmul()".to_owned(), "cpp:cublas*".to_owned()];
    input.job.requires = vec!["kforge_rt.build()".to_owned()];
    let user = prompts.generator(&input).unwrap().user;
    assert!(user.contains("The user bans `torch.matmul()`"), "{user}");
    assert!(user.contains("The user bans `cpp:cublas*`"), "{user}");
    assert!(user.contains("The user requires `kforge_rt.build()`"), "{user}");
}

#[test]
fn what_the_reference_writes_must_be_written() {
    let prompts = prompts("cpu/cpp", Edits::default());
    let told = |problem: Option<ProblemReport>| {
        let mut input = generator("cpu/cpp", GeneratorPass::First);
        input.job.problem = problem;
        let user = prompts.generator(&input).unwrap().user;
        user.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let nothing = told(Some(ProblemReport::default()));
    assert!(nothing.contains("inputs must be unchanged after the call."), "{nothing}");
    assert!(!nothing.contains("reference writes"), "{nothing}");
    let unknown = told(None);
    assert!(unknown.contains("unchanged after the call, but for those that the reference writes."), "{unknown}");
    assert!(unknown.contains("What the reference writes besides what it returns is output too"), "{unknown}");
    let writes = vec!["input 3 (cache)".to_owned(), "buffer norm.running_mean".to_owned()];
    let known = told(Some(ProblemReport { writes, ..ProblemReport::default() }));
    assert!(
        known.contains("- The reference writes input 3 (cache), buffer norm.running_mean. That is output"),
        "{known}"
    );
    assert!(
        known.contains("6. The same input twice; inputs of which parts of several sizes were changed. The reference"),
        "{known}"
    );
    assert!(known.contains("Every other input must be unchanged after the call."), "{known}");
    assert!(!known.contains("; inputs must be unchanged"), "{known}");
}

#[test]
fn a_contract_in_the_problem_is_told_until_it_is_read() {
    let prompts = prompts("cpu/cpp", Edits::default());
    let told = |source: &str, problem: Option<ProblemReport>| {
        let mut input = generator("cpu/cpp", GeneratorPass::First);
        (input.job.problem_source, input.job.problem) = (source.to_owned(), problem);
        prompts.generator(&input).unwrap().user.contains("own `KFORGE = dict(...)`")
    };
    let with = format!("{PROBLEM}\n\nKFORGE = dict(mul='tf32')\n");
    assert!(told(&with, None));
    assert!(!told(&with, Some(ProblemReport::default())) && !told(PROBLEM, None));
}

#[test]
fn other_sizes_do_not_hide_that_sizes_are_reduced() {
    let section = |timed, shapes: &[(&str, i64)]| {
        let mut input = generator("cpu/cpp", GeneratorPass::First);
        input.job.timed = timed;
        input.job.contract.shapes =
            shapes.iter().map(|(name, size)| BTreeMap::from([((*name).to_owned(), *size)])).collect();
        let user = prompts("cpu/cpp", Edits::default()).generator(&input).unwrap().user;
        ["These other sizes", "may use smaller ones", "own sizes are what is measured"]
            .map(|words| user.contains(words))
    };
    assert_eq!(section(false, &[("batch", 3)]), [true, true, false]);
    assert_eq!(section(false, &[]), [false, true, false]);
    assert_eq!(section(true, &[("batch", 3)]), [true, false, false]);
    assert_eq!(section(true, &[]), [false, false, true]);
}

#[test]
fn vector_widths_come_from_the_name_of_the_device() {
    let prompts = prompts("cpu/cpp", Edits::default());
    for (feature, bits) in [
        ("avx512f", Some(512)),
        ("avx2", Some(256)),
        ("sse2", Some(128)),
        ("sve256", Some(256)),
        ("asimd", Some(128)),
        ("sve", None),
    ] {
        let mut input = generator("cpu/cpp", GeneratorPass::First);
        input.job.device.name = format!("aarch64 ({feature})");
        let user = prompts.generator(&input).unwrap().user;
        match bits {
            Some(bits) => assert!(user.contains(&format!("vector registers: {bits} bits")), "{feature}"),
            None => assert!(!user.contains("vector registers: "), "{feature}"),
        }
    }
}
