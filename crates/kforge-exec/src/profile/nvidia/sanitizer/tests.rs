use super::*;

const MEMCHECK: &str = "\
========= COMPUTE-SANITIZER
some output of the program
========= Invalid __global__ read of size 4 bytes
=========     at scaleArray(float *, float)+0x70 in /scratch/x/kernel.cu:6
=========     by thread (255,0,0) in block (3,0,0)
=========     Address 0x74b834000ffc is out of bounds
=========     and is 1 bytes after the nearest allocation at 0x74b834000000 of size 4,092 bytes
=========     Saved host backtrace up to driver entry point at kernel launch time
=========         Host Frame: main [0x8ae3] in cs-writeValidMem
=========
========= Invalid __global__ read of size 4 bytes
=========     at scaleArray(float *, float)+0x70 in /scratch/x/kernel.cu:6
=========     by thread (254,0,0) in block (3,0,0)
=========     Address 0x74b834000ff8 is out of bounds
=========
========= Target application returned an error
========= ERROR SUMMARY: 2 errors
";

const RACECHECK: &str = "\
========= COMPUTE-SANITIZER
========= Error: Race reported between Write access at AxisSum(float *)+0x1b0 in candidate.py:46
=========     and Read access at AxisSum(float *)+0x1d0 in candidate.py:55 [129152 hazards]
=========
========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)
";

const INITCHECK: &str = "\
========= COMPUTE-SANITIZER
========= Uninitialized __global__ memory read of size 4 bytes
=========     at 0x100 in /home/a/52_sum.cu:30:sum_gpu(const int *, int *, unsigned int)
=========     by thread (98,0,0) in block (194,0,0)
=========     Address 0x7fbbca800000
========= ERROR SUMMARY: 257 errors
========= ERROR SUMMARY: 157 errors were not printed. Use --print-limit option to adjust the number of printed errors
";

const SYNCCHECK: &str = "\
========= COMPUTE-SANITIZER
========= Barrier error detected. Invalid arguments.
=========     at __syncwarp(unsigned int)+0xe0 in sm_30_intrinsics.hpp:110
=========     by thread (16,0,0) in block (0,0,0)
=========         Device Frame: broken_sync(float *, unsigned long)+0xb0 in /input/kernel.cu:12
========= ERROR SUMMARY: 17 errors
";

const CLEAN: &str = "========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n";

fn finished() -> Ended {
    Ended { finished: true, limit_s: 60, ..Ended::default() }
}

#[test]
fn an_access_out_of_bounds_has_kernel_thread_line_and_address() {
    let tool = judge("memcheck", MEMCHECK, &finished(), false);
    let first = tool.first.unwrap();
    assert_eq!((tool.errors, tool.ran, tool.advisory), (2, true, false));
    assert_eq!(first.kind, "Invalid __global__ read of size 4 bytes");
    assert_eq!((first.kernel.as_str(), first.place.as_str()), ("scaleArray", "kernel.cu:6"));
    assert_eq!(first.thread, "(255,0,0) in block (3,0,0)");
    assert!(first.address.starts_with("Address 0x74b834000ffc is out of bounds and is 1 bytes after"), "{first:?}");
}

#[test]
fn races_have_both_places_and_are_advisory_for_mbarriers() {
    let tool = judge("racecheck", RACECHECK, &finished(), false);
    let first = tool.first.as_ref().unwrap();
    assert_eq!((first.kernel.as_str(), first.place.as_str()), ("AxisSum", "candidate.py:46"));
    assert!(first.kind.starts_with("Race reported between Write access"), "{first:?}");
    assert!(first.address.contains("and Read access at AxisSum(float *)+0x1d0 in candidate.py:55"), "{first:?}");
    assert!(!tool.advisory);
    let trusted_less = judge("racecheck", RACECHECK, &finished(), true);
    assert!(trusted_less.advisory && trusted_less.detail.contains("for information only"));
    assert!(!judge("memcheck", MEMCHECK, &finished(), true).advisory);
}

#[test]
fn older_forms_and_device_frames_are_read() {
    let init = judge("initcheck", INITCHECK, &finished(), false);
    let first = init.first.unwrap();
    assert_eq!((first.kernel.as_str(), first.place.as_str()), ("sum_gpu", "52_sum.cu:30"));
    assert!(init.detail.starts_with("257 errors"));
    let sync = judge("synccheck", SYNCCHECK, &finished(), false).first.unwrap();
    assert_eq!((sync.kernel.as_str(), sync.place.as_str()), ("broken_sync", "kernel.cu:12"));
}

#[test]
fn a_clean_run_is_clean_and_a_broken_one_is_not() {
    let clean = judge("memcheck", CLEAN, &finished(), false);
    assert_eq!((clean.ran, clean.errors, clean.detail.as_str()), (true, 0, "nothing found"));
    let unfinished = Ended { program: "ImportError: x".into(), ..Ended::default() };
    let stopped = judge("memcheck", CLEAN, &unfinished, false);
    assert!(!stopped.ran && stopped.detail.contains("ImportError: x"));
    let late = judge("memcheck", "", &Ended { timed_out: true, limit_s: 60, ..Ended::default() }, false);
    assert!(!late.ran && late.detail.contains("60 s"));
    let broken = judge("memcheck", "========= Error: No attachable process found\n", &finished(), false);
    assert!(!broken.ran && broken.detail.contains("No attachable process"), "{broken:?}");
    let unseen = format!("========= Error: Target application terminated before first instrumented API call\n{CLEAN}");
    let unseen = judge("memcheck", &unseen, &finished(), false);
    assert!(!unseen.ran && unseen.detail.contains("before first instrumented API call"), "{unseen:?}");
    let refused = Ended { program: "unrecognised option '--leak'".into(), ..Ended::default() };
    let refused = judge("memcheck", "", &refused, false);
    assert_eq!(refused.detail, "it did not come to its end: unrecognised option '--leak'");
}

#[test]
fn errors_of_a_framework_are_not_the_candidates_except_for_bad_addresses() {
    let text = INITCHECK.replace("sum_gpu(const int *, int *, unsigned int)", "at::native::cublas_thing(int)");
    let init = judge("initcheck", &text, &finished(), false);
    assert!(init.ran && init.errors == 0 && init.detail.contains("kernels of the framework"), "{init:?}");
    let memory = MEMCHECK.replace("scaleArray(float *, float)", "cublas_gemv(float *)");
    assert_eq!(judge("memcheck", &memory, &finished(), false).errors, 2);
    assert_eq!(judge("initcheck", &memory, &finished(), false).errors, 0);
}

#[test]
fn hostile_text_is_bounded() {
    let many = "========= Invalid x\n=========     at \u{1b}[2J\n".repeat(5000);
    assert_eq!(parse(&many).errors.len(), MOST_ERRORS);
    for text in [
        "",
        "=========",
        "========= ",
        "========= ERROR SUMMARY:",
        "=========     at ",
        "========= RACECHECK SUMMARY: ((",
    ] {
        let _ = parse(text);
        let _ = judge("racecheck", text, &Ended::default(), true);
    }
    let cut = &MEMCHECK[..MEMCHECK.len() - 60];
    assert_eq!(parse(cut).errors.len(), 2);
    let long =
        format!("========= Invalid {}\n=========     at 0x1 in a:1:{}\n", "x".repeat(99_999), "y".repeat(99_999));
    let error = parse(&long).errors.remove(0).error;
    assert!(error.kind.len() < 300 && error.kernel.len() < 200);
}
