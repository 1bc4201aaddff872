use super::*;

const RAW: &str = include_str!("../fixtures/ncu.csv");

#[test]
fn the_raw_page_is_read_with_its_units_row() {
    let log = parse(RAW);
    assert!(log.connected && log.errors.is_empty());
    assert_eq!(log.launches.len(), 2);
    let first = &log.launches[0];
    assert_eq!(first.kernel, "_Z7softmaxPKfPfi");
    assert!((first.values["dram__bytes.sum.per_second"] - 3_450_000_000_000.5).abs() < 1.0);
    assert!((first.values["gpu__time_duration.sum"] - 40_704.0).abs() < 1e-9);
    assert_eq!(log.launches[1].kernel, "void at::native::x<\"a\", 4>(int, float)");
    assert_eq!(log.empty, ["smsp__warp_issue_stalled_memory_dependency_per_warp_active.pct"]);
}

/// As Nsight Compute 2025.3.1 wrote it on an H200, with a part of its columns.
#[test]
fn metrics_that_are_left_out_without_a_word_are_found_by_the_columns() {
    let log = parse(include_str!("../fixtures/ncu_h200.csv"));
    assert!(log.connected && log.errors.is_empty() && log.unknown.is_empty());
    let [launch] = log.launches.as_slice() else { panic!("{:?}", log.launches) };
    assert_eq!(super::super::names::plain(&launch.kernel), "softmax_registers");
    // Beside the name that was asked for there are its average, its least and its most.
    assert!((launch.values["dram__bytes_read.sum"] - 134_238_208.0).abs() < 0.5);
    assert!((launch.values["dram__bytes.sum.per_second"] - 3_702_552_567_237.16).abs() < 1.0);
    assert!((launch.values["gpu__time_duration.sum"] - 65_440.0).abs() < 1e-9);
    assert!((launch.values["launch__registers_per_thread"] - 63.0).abs() < 1e-9);
    let asked = [
        "dram__bytes_read.sum",
        "sm__inst_executed_pipe_fp32.avg.pct_of_peak_sustained_active",
        "smsp__warp_issue_stalled_memory_dependency_per_warp_active.pct",
        "smsp__warp_issue_stalled_long_scoreboard_per_warp_active.pct",
    ];
    let lacks = log.lacks(&asked);
    assert!(asked[1..3].iter().all(|name| lacks.iter().any(|gone| gone == name)), "{lacks:?}");
    assert!(!lacks.iter().any(|gone| gone == asked[0] || gone == asked[3]), "{lacks:?}");
    assert!(Log::default().lacks(&asked).is_empty(), "without a launch nothing is known");
}

#[test]
fn a_row_for_each_metric_is_read_too_and_units_are_made_base() {
    let text = "\"ID\",\"Kernel Name\",\"Metric Name\",\"Metric Unit\",\"Metric Value\"\n\
                \"0\",\"k\",\"gpu__time_duration.sum\",\"usecond\",\"1.50\"\n\
                \"0\",\"k\",\"dram__bytes_read.sum\",\"Mbyte\",\"2\"\n\
                \"1\",\"k2\",\"dram__bytes.sum.per_second\",\"Gbyte/second\",\"3\"\n";
    let log = parse(text);
    assert_eq!(log.launches.len(), 2);
    assert!((log.launches[0].values["gpu__time_duration.sum"] - 1500.0).abs() < 1e-9);
    assert!((log.launches[0].values["dram__bytes_read.sum"] - 2e6).abs() < 1e-9);
    assert!((log.launches[1].values["dram__bytes.sum.per_second"] - 3e9).abs() < 1e-9);
}

#[test]
fn metrics_that_a_chip_lacks_are_named() {
    let text = "==PROF== Connected to process 3\n\
        ==ERROR== Failed to find metric regex:^sm__foo\\.(sum|min|max|avg|pct|ratio|max_rate)$\n\
        ==ERROR== Failed to find metric smsp__warp_issue_stalled_memory_dependency_per_warp_active.pct\n";
    let log = parse(text);
    assert_eq!(log.unknown, ["sm__foo", "smsp__warp_issue_stalled_memory_dependency_per_warp_active.pct"]);
}

#[test]
fn each_way_to_be_denied_has_its_own_words() {
    let of = |text: &str| denied(&parse(text), "", false, 60);
    let permission = "==PROF== Connected to process 3\n==ERROR== ERR_NVGPUCTRPERM - The user does not have permission \
                      to access NVIDIA GPU Performance Counters on the target device 0.\n";
    assert!(of(permission).contains("NVreg_RestrictProfilingToAdminUsers=0"));
    assert!(of("==ERROR== LibraryNotLoaded\n").contains("fits the driver"));
    let held = "==ERROR== Profiling failed because a driver resource was unavailable. Ensure that no other tool\n";
    assert!(of(held).contains("DCGM"));
    assert!(denied(&Log::default(), "", true, 60).contains("60 s"));
    assert!(of("==PROF== Connected to process 3\n==WARNING== No kernels were profiled.\n").contains("no kernel ran"));
    let other = "==PROF== Connected to process 3\n==WARNING== No kernels were profiled.\nAvailable Kernels:\n\
                 1. wmma_kernel(int)\n2. other\n";
    assert_eq!(parse(other).available, ["wmma_kernel(int)", "other"]);
    assert!(of(other).contains("wmma_kernel(int), other"));
    assert!(denied(&Log::default(), "cannot open display", false, 60).contains("cannot open display"));
}

#[test]
fn hostile_text_is_bounded() {
    let rows: Vec<String> = (0..500).map(|number| format!("\"{number}\",\"k\",\"1e999\"")).collect();
    let text = format!("\"ID\",\"Kernel Name\",\"a__b\"\n{}", rows.join("\n"));
    let log = parse(&text);
    assert_eq!(log.launches.len(), MOST_LAUNCHES);
    assert!(log.launches[0].values.is_empty());
    for broken in [
        "\"ID\",\"Kernel Name",
        "\"\"\"\"\"",
        "\"ID\"\n\"0\"",
        "\u{0}\u{1}==ERROR==",
        "==ERROR== Failed to find metric",
    ] {
        let _ = parse(broken);
    }
    let truncated = &RAW[..RAW.len() - 30];
    assert_eq!(parse(truncated).launches.len(), 2);
    let wide = format!("\"ID\",{}", "\"x__y\",".repeat(20_000));
    assert!(parse(&wide).launches.is_empty());
}
