//! Of a candidate that was never run both agents learn that it was compiled, and nothing more.

use super::*;

fn compiled() -> Failure {
    let mut result = result(&Verdict::compiled("compiled for sm_90a and never called"));
    result.checks.truncate(1);
    Failure::Judged { candidate: CANDIDATE.to_owned(), result: Box::new(result) }
}

/// What both are told apart from what every prompt of the target says.
fn about_the_attempt(user: &str) -> &str {
    &user[..user.find("## The target").unwrap()]
}

#[test]
fn neither_agent_is_told_that_it_is_right_or_wrong() {
    let prompts = prompts("nvidia/cuda", Edits::default());
    let repair = GeneratorPass::Repair(Repair { failure: compiled(), correction: None });
    let input = GeneratorInput { history: Vec::new(), ..generator("nvidia/cuda", repair) };
    let user = prompts.generator(&input).unwrap().user;
    assert!(user.contains("it is compiled and never run, and that is all you will be told"), "{user}");
    insta::assert_snapshot!("generator_compiled", about_the_attempt(&user));
    let input = AnalystInput { history: Vec::new(), ..analyst("nvidia/cuda", AnalystPass::Correction(compiled())) };
    let asked = prompts.analyst(&input).unwrap().user;
    insta::assert_snapshot!("analyst_compiled", about_the_attempt(&asked));
    for text in [about_the_attempt(&user), about_the_attempt(&asked)] {
        assert!(!text.contains("not correct") && !text.contains("is correct"), "{text}");
    }
}

#[test]
fn later_prompts_call_it_compiled() {
    let mut earlier = history().remove(0);
    (earlier.state, earlier.speedup, earlier.reason) = (Some(State::Compiled), None, "compiled for sm_90a".to_owned());
    let input = GeneratorInput { history: vec![earlier], ..generator("nvidia/cuda", GeneratorPass::First) };
    let user = prompts("nvidia/cuda", Edits::default()).generator(&input).unwrap().user;
    assert!(user.contains("- iteration 1: plain loop -> compiled, never run\n"), "{user}");
}
