use super::*;

const SOURCE: &str = r#"#include <cmath>
extern "C" int softmax(const float* x, float* y, long rows, long cols) {
    #pragma omp parallel for
    for (long r = 0; r < rows; ++r) {
        float top = x[r * cols];
        for (long c = 1; c < cols; ++c) {
            if (x[r * cols + c] > top) top = x[r * cols + c];
        }
        float sum = 0.0f;
        for (long c = 0; c < cols; ++c) {
            y[r * cols + c] = std::exp(x[r * cols + c] - top);
            sum += y[r * cols + c];
        }
        for (long c = 0; c < cols; ++c) y[r * cols + c] /= sum;
    }
    return 0;
}
"#;

/// What g++ 12 says of it with `-O3 -march=native -fopenmp` on a machine with AVX-512.
const GCC: &str = "\
kernel.cpp:4:25: missed: couldn't vectorize loop
kernel.cpp:4:25: missed: not vectorized: loop nest containing two or more consecutive inner loops cannot be vectorized
kernel.cpp:14:28: optimized: loop vectorized using 64 byte vectors
kernel.cpp:14:28: optimized: loop vectorized using 32 byte vectors
kernel.cpp:10:28: missed: couldn't vectorize loop
kernel.cpp:11:54: missed: not vectorized: no vectype for stmt: _50 = *_49;
 scalar_type: const float
kernel.cpp:6:28: missed: couldn't vectorize loop
kernel.cpp:3:13: missed: not vectorized: unsupported use in stmt.
kernel.cpp:2:16: missed: statement clobbers memory: __builtin_GOMP_parallel (softmax._omp_fn.0, &.omp_data_o.2, 0, 0);
kernel.cpp:3:13: optimized: basic block part vectorized using 64 byte vectors
/usr/include/c++/12/cmath:4:1: optimized: loop vectorized using 16 byte vectors
";

const CLANG: &str = "\
kernel.cpp:6:9: remark: loop not vectorized: cannot prove it is safe to reorder floating-point operations; allow reordering by specifying '#pragma clang loop vectorize(enable)' [-Rpass-analysis=loop-vectorize]
kernel.cpp:6:9: remark: loop not vectorized [-Rpass-missed=loop-vectorize]
    6 |         for (long c = 1; c < cols; ++c) {
      |         ^
kernel.cpp:11:31: remark: loop not vectorized: call instruction cannot be vectorized [-Rpass-analysis=loop-vectorize]
kernel.cpp:10:9: remark: loop not vectorized [-Rpass-missed=loop-vectorize]
kernel.cpp:14:9: remark: vectorized loop (vectorization width: 8, interleaved count: 4) [-Rpass=loop-vectorize]
";

#[test]
fn gcc_tells_widths_and_first_reasons() {
    let fates = gcc(GCC);
    assert_eq!(fates[&14], Fate::Vectorised { bytes: Some(64), elements: None });
    assert_eq!(fates[&10], Fate::Missed("no vectype for stmt: _50 = *_49;".to_owned()));
    assert_eq!(fates[&6], Fate::Missed("unsupported use in stmt.".to_owned()));
}

#[test]
fn a_reason_may_point_into_a_header_or_be_missing() {
    let fates = gcc("kernel.cpp:8:31: missed: couldn't vectorize loop\n\
                     /usr/include/c++/12/cmath:223:26: missed: statement clobbers memory: _52 = __builtin_expf (_17);\n\
                     kernel.cpp:9:1: missed: couldn't vectorize loop\nkernel.cpp:11:1: missed: couldn't vectorize loop\n");
    assert_eq!(fates[&8], Fate::Missed("statement clobbers memory: _52 = __builtin_expf (_17);".to_owned()));
    assert_eq!((&fates[&9], &fates[&11]), (&Fate::Missed(String::new()), &Fate::Missed(String::new())));
}

#[test]
fn clang_tells_elements_and_reasons() {
    let fates = clang(CLANG);
    assert_eq!(fates[&14], Fate::Vectorised { bytes: None, elements: Some(8) });
    assert!(matches!(&fates[&6], Fate::Missed(reason) if reason.starts_with("cannot prove it is safe to reorder")));
    assert!(matches!(&fates[&10], Fate::Missed(reason) if reason.is_empty()));
}

#[test]
fn findings_name_lines_and_what_to_do_and_spare_outer_loops() {
    for fates in [gcc(GCC), clang(CLANG)] {
        let found = findings(SOURCE, &fates);
        assert_eq!(found.len(), 3, "{found:?}");
        let texts: Vec<&str> = found.iter().map(|f| f.text.as_str()).collect();
        assert!(texts.iter().any(|t| t.contains("line 6 (`for (long c = 1;") && t.contains("reduction")), "{texts:?}");
        assert!(texts.iter().any(|t| t.contains("line 10 ") && t.contains("calls exp,")), "{texts:?}");
        assert!(texts[2].contains("vectorised 1 innermost loop: line 14"), "{texts:?}");
        assert!(found[0].rank > found[2].rank);
        assert!(found[0].metrics.contains(&("loop_depth", 1.0)));
    }
}

#[test]
fn a_pragma_line_stands_for_its_loop() {
    let source = "void f() {\n  #pragma omp simd\n  for (int i = 0; i < n; ++i) y[i] = x[i];\n}\n";
    let found = findings(source, &gcc("kernel.cpp:2:11: optimized: loop vectorized using 32 byte vectors\n"));
    assert!(found[0].text.contains("line 3 with 32 bytes"), "{found:?}");
}

#[test]
fn hostile_reports_are_bounded_and_do_not_break_it() {
    let flood = "\u{1b}[2J".repeat(10_000);
    let of_gcc = format!(
        "kernel.cpp:99999999999999999999:1: missed: couldn't vectorize loop\nkernel.cpp:7\n\
         kernel.cpp:0:0: missed: couldn't vectorize loop\nkernel.cpp:6:28: missed: couldn't vectorize loop\n\
         kernel.cpp:1:1: missed: not vectorized: {flood}\n"
    );
    let of_clang = format!(
        "kernel.cpp:99999999999999999999:1: remark: loop not vectorized\nkernel.cpp:7\n\
         kernel.cpp:0:0: remark: loop not vectorized\n\
         kernel.cpp:6:9: remark: loop not vectorized: {flood} [-Rpass-analysis=loop-vectorize]\n"
    );
    let source = SOURCE.replace("c = 1; c < cols; ++c) {", &format!("c = 1; c < cols; ++c) {{ // {flood}"));
    for fates in [gcc(&of_gcc), clang(&of_clang)] {
        assert_eq!(fates.keys().copied().collect::<Vec<_>>(), [0, 6]);
        let found = findings(&source, &fates);
        assert_eq!(found.len(), 1, "{found:?}");
        let text = &found[0].text;
        assert!(text.contains("line 6 ") && !text.contains('\u{1b}') && text.chars().count() < 400, "{text}");
        assert!(findings("", &fates).is_empty());
    }
    for (family, log) in [("gcc", &of_gcc), ("clang", &of_clang)] {
        let build = Build {
            name: "a.json".into(),
            source: source.clone(),
            family: family.into(),
            version: "v".into(),
            log: log.clone(),
            error: String::new(),
        };
        assert_eq!(report(&[build]).unwrap().found.len(), 1, "{family}");
    }
    assert!(report(&[]).unwrap_err().contains("kforge_rt.build"));
}
