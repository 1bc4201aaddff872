use super::*;

fn launch(values: &[(&str, f64)]) -> Launch {
    Launch { kernel: "k".into(), values: values.iter().map(|(n, v)| ((*n).to_owned(), *v)).collect() }
}

fn scene() -> Scene {
    Scene { products: true, tensor_cores: true, multiprocessors: Some(132.0), least_bytes: 1e6, time_us: None }
}

fn says(values: &[(&str, f64)], load_bytes: Option<u32>, scene: Scene) -> String {
    let launch = launch(values);
    let kernel = Kernel { name: "k".to_owned(), share: 1.0, launch: &launch, load_bytes };
    of(&kernel, &scene).into_iter().map(|found| found.text).collect::<Vec<_>>().join("\n")
}

#[test]
fn memory_bound_at_both_sides_of_the_threshold() {
    let at = |percent, sm| says(&[(m::DRAM_PERCENT, percent), (m::SM_PERCENT, sm)], None, scene());
    assert!(at(60.0, 10.0).contains("memory-bound: device memory runs at 60 %"));
    assert!(!at(59.9, 10.0).contains("memory-bound"));
    assert!(at(70.0, 80.0).contains("bound by instructions"));
    assert!(at(60.0, 10.0).contains("more bytes in flight") && at(90.0, 10.0).contains("near what the memory gives"));
    let moved = [(m::DRAM_PERCENT, 90.0), (m::DRAM_READ, 3e6), (m::DRAM_WRITTEN, 1e6)];
    assert!(says(&moved, None, scene()).contains("4.0 times what inputs"));
    assert!(says(&moved[..2], None, Scene { least_bytes: 3e6, ..scene() }).contains("near what"));
}

#[test]
fn tensor_and_instruction_limits() {
    let at =
        |tensor, sm| says(&[(m::DRAM_PERCENT, 20.0), (m::SM_PERCENT, sm), (m::TENSOR_PIPE, tensor)], None, scene());
    assert!(at(60.0, 70.0).contains("bound by tensor cores"));
    assert!(at(59.0, 60.0).contains("bound by instructions"));
    assert!(!at(59.0, 59.0).contains("bound by"));
}

#[test]
fn waits_are_named_by_the_longest() {
    let at = |long, barrier| {
        says(
            &[(m::DRAM_PERCENT, 20.0), (m::SM_PERCENT, 20.0), (m::STALL_LONG, long), (m::STALL_BARRIER, barrier)],
            None,
            scene(),
        )
    };
    assert!(at(40.0, 10.0).contains("for global memory"));
    assert!(at(10.0, 40.0).contains("at block barriers"));
    assert!(at(24.9, 10.0).contains("no single kind") && at(25.0, 10.0).contains("for global memory"));
}

#[test]
fn occupancy_names_the_smallest_limit() {
    let limits = [(m::LIMIT_REGISTERS, 2.0), (m::LIMIT_SHARED, 3.0), (m::LIMIT_WARPS, 8.0), (m::LIMIT_BLOCKS, 32.0)];
    let at = |warps: f64, registers: f64| {
        let mut values = vec![(m::ACTIVE_WARPS, warps), (m::REGISTERS, 168.0), (m::SHARED_PER_BLOCK, 65536.0)];
        values.extend(limits);
        values.push((m::LIMIT_REGISTERS, registers));
        says(&values, None, scene())
    };
    assert!(at(39.9, 2.0).contains("limited by registers, 168 for each thread: 2 blocks fit"), "{}", at(39.9, 2.0));
    assert!(at(12.0, 4.0).contains("limited by shared memory, 64 KiB for each block: 3 blocks"));
    assert_eq!(at(40.0, 2.0), "");
}

#[test]
fn coalescing_depends_on_the_width_of_the_loads() {
    let at = |sectors, width| says(&[(m::LOAD_SECTORS, sectors)], width, scene());
    assert!(at(6.1, Some(4)).contains("uncoalesced loads") && at(6.0, Some(4)).is_empty());
    assert!(at(16.0, Some(16)).is_empty() && at(16.0, None).is_empty());
    assert!(at(32.0, None).contains("where 16 would do"));
    assert!(says(&[(m::STORE_SECTORS, 32.0)], Some(4), scene()).contains("uncoalesced stores"));
}

#[test]
fn bank_conflicts_count_from_a_fifth() {
    let at = |conflicts, all| says(&[(m::BANK_CONFLICTS, conflicts), (m::SHARED_WAVEFRONTS, all)], None, scene());
    assert!(at(201.0, 1000.0).contains("bank conflicts: 20 %"));
    assert!(at(200.0, 1000.0).is_empty() && at(900.0, 999.0).is_empty());
}

#[test]
fn tensor_cores_are_missed_only_where_the_contract_allows_them() {
    let values = [(m::TENSOR_PIPE, 0.0), (m::DRAM_PERCENT, 30.0)];
    assert!(says(&values, None, scene()).contains("does not use tensor cores"));
    assert!(!says(&values, None, Scene { tensor_cores: false, ..scene() }).contains("tensor"));
    assert!(!says(&values, None, Scene { products: false, ..scene() }).contains("tensor"));
    assert!(!says(&[(m::TENSOR_PIPE, 1.0), values[1]], None, scene()).contains("does not use"));
    assert!(!says(&[values[0], (m::DRAM_PERCENT, 60.0)], None, scene()).contains("does not use"));
}

#[test]
fn small_grids_and_tails() {
    let at = |grid, waves| says(&[(m::GRID, grid), (m::WAVES, waves)], None, scene());
    assert!(at(131.0, 0.5).contains("131 blocks for 132 multiprocessors"));
    assert!(at(132.0, 0.9).is_empty());
    assert!(at(1000.0, 1.7).contains("makes 1.70 waves") || at(1000.0, 1.7).contains("make 1.70 waves"));
    assert!(at(1000.0, 1.71).is_empty(), "14.5 % is less than what counts");
    assert!(at(9000.0, 8.1).is_empty() && at(132.0, 1.0).is_empty());
}

#[test]
fn divergence_and_launches() {
    assert!(says(&[(m::UNIFORM_BRANCHES, 79.0)], None, scene()).contains("only 79 %"));
    assert!(says(&[(m::UNIFORM_BRANCHES, 80.0)], None, scene()).is_empty());
    assert!(says(&[(m::UNIFORM_BRANCHES, 0.0)], None, scene()).is_empty());
    assert!(launches(4.9, 3.0, 10.0).unwrap().text.contains("4.9 of 10.0 us a call, in 3 launches"));
    assert!(launches(5.0, 3.0, 10.0).is_none() && launches(0.0, 0.0, 10.0).is_none());
}

#[test]
fn a_kernel_that_takes_little_of_the_time_matters_little() {
    let launch = launch(&[(m::DRAM_PERCENT, 90.0)]);
    let of_share = |share| of(&Kernel { name: "k".into(), share, launch: &launch, load_bytes: None }, &scene())[0].rank;
    assert!(of_share(1.0) > of_share(0.3) && of_share(0.3) > of_share(0.0));
}

#[test]
fn no_numbers_give_no_words() {
    assert_eq!(says(&[], None, scene()), "");
}
