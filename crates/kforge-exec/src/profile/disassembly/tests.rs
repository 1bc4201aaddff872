use super::*;

const AVX2: &str = include_str!("../fixtures/avx2.txt");
const AVX512: &str = include_str!("../fixtures/avx512.txt");
const AARCH64: &str = include_str!("../fixtures/aarch64.txt");
const WIDE: Width = Width { bits: 512, name: "AVX-512", fma: true };

fn library(text: &str) -> Library {
    parse(&Code { name: "kernel.so".to_owned(), text: text.to_owned() })
}

fn texts(library: &Library, machine: Width) -> Vec<String> {
    let found = report("objdump", std::slice::from_ref(library), &Heat::default(), machine).unwrap().found;
    found.into_iter().map(|f| f.text).collect()
}

#[test]
fn widths_calls_and_arithmetic_of_x86_are_told() {
    for (text, bits) in [(AVX2, 256), (AVX512, 512)] {
        let library = library(text);
        let names: Vec<&str> = library.functions.iter().map(|f| f.name.as_str()).collect();
        assert_eq!(names, ["softmax._omp_fn.0", "softmax"]);
        let region = &library.functions[0];
        assert_eq!(region.all.widest, bits);
        assert_eq!(region.in_loops.libm, BTreeMap::from([("expf".to_owned(), 1)]));
        assert_eq!(region.all.openmp, 2);
        assert!(region.in_loops.packed >= 1, "{region:?}");
        assert_eq!(library.functions[1].all.openmp, 1);
        assert!(library.functions[1].in_loops == Counts::default());
    }
}

#[test]
fn a_file_offset_is_found_in_its_function() {
    let library = library(AVX2);
    assert_eq!(library.function_at(0x1270).unwrap().name, "softmax._omp_fn.0");
    assert_eq!(library.function_at(0x1405).unwrap().name, "softmax");
    assert!(library.function_at(0x10).is_none() && library.function_at(u64::MAX).is_none());
}

#[test]
fn sentences_name_the_function_and_the_machine() {
    let narrow = texts(&library(AVX2), WIDE);
    assert!(narrow[0].starts_with("softmax (its parallel region) calls scalar libm functions in a loop: expf (1x)"));
    let wide = texts(&library(AVX512), WIDE);
    assert!(!wide.iter().any(|text| text.contains("although the machine")), "{wide:?}");
}

#[test]
fn neon_sve_and_scalar_arm_code_are_told_apart() {
    let library = library(AARCH64);
    let [scale, gelu, pick] = &library.functions[..] else { panic!("{library:?}") };
    assert_eq!((scale.in_loops.packed, scale.in_loops.scalar, scale.in_loops.fma, scale.all.widest), (2, 0, 1, 128));
    assert_eq!(gelu.in_loops.libm, BTreeMap::from([("tanhf".to_owned(), 1)]));
    assert_eq!((gelu.in_loops.scalar, gelu.all.spills, gelu.in_loops.spills), (3, 1, 0));
    assert_eq!((pick.in_loops.gather, pick.in_loops.packed, pick.in_loops.scatter), (1, 1, 0));
    assert!(library.vla);
    let machine = Width::of("Features\t: fp asimd sve\n");
    assert_eq!((machine.bits, machine.name, machine.fma), (0, "SVE", true));
    assert!(texts(&library, machine).iter().any(|text| text.starts_with("pick has 1 gathers")));
}

#[test]
fn narrow_vectors_scalar_loops_and_spills_are_said() {
    let text = "x: file format elf64-x86-64\n\n0000000000001000 <axpy>:\n    1000:\tvmovups (%rdi),%xmm0\n    \
                1004:\tvmulps %xmm0,%xmm1,%xmm2\n    1008:\tvaddps %xmm2,%xmm3,%xmm3\n    100c:\tjne    1000 <axpy>\n    \
                1010:\tret\n\n0000000000001020 <dot>:\n    1020:\tvmulss (%rdi),%xmm0,%xmm1\n    \
                1024:\tvaddss %xmm1,%xmm2,%xmm2\n    1028:\tvmulss %xmm1,%xmm2,%xmm2\n    102a:\tvmovaps %ymm3,0x40(%rsp)\n    \
                102c:\tbnd jne 1020 <dot>\n";
    let library = library(text);
    assert_eq!(library.functions[1].in_loops.spills, 1);
    let texts = texts(&library, WIDE);
    assert!(texts.iter().any(|t| t == "axpy uses 128-bit vectors only, although the machine has AVX-512 (512 bits)"));
    assert!(texts.iter().any(|t| t.starts_with("dot computes one number at a time: 3 scalar")), "{texts:?}");
}

#[test]
fn hot_functions_come_first() {
    let library = library(AARCH64);
    let functions = BTreeMap::from([("pick".to_owned(), 0.9), ("gelu".to_owned(), 0.05)]);
    let (gelu, inner) = library.loop_at(0x750).unwrap();
    assert_eq!((gelu.name.as_str(), inner.start, inner.end), ("gelu", 0x748, 0x768));
    assert!(library.loop_at(0x740).is_none());
    let heat = Heat { functions, loops: vec![(gelu, inner, 0.4)] };
    let found = report("objdump", std::slice::from_ref(&library), &heat, WIDE).unwrap().found;
    let hot = found.iter().find(|f| f.text.starts_with("a loop of gelu takes 40 %")).unwrap();
    assert!(hot.text.contains("one number at a time"), "{hot:?}");
    assert!(found[0].text.starts_with("pick"));
    assert!(found[0].metrics.contains(&("share_of_time", 0.9)));
}

#[test]
fn nonsense_is_an_answer_too() {
    for text in
        ["", "0 <>:", "zz <a>:\n", "0000 <a>:\n : \n ffff:\tjmp ffffffffffffffffff\n", "LOAD off\n", "1 <a>:\n0:\tb."]
    {
        let library = library(text);
        assert!(report("objdump", &[library], &Heat::default(), WIDE).is_err());
    }
    assert!(report("", &[], &Heat::default(), WIDE).unwrap_err().contains("binutils"));
}

#[test]
fn the_machine_is_read_from_its_flags() {
    assert_eq!(Width::of("flags\t\t: fpu sse2 avx avx2 fma avx512f\n"), WIDE);
    assert_eq!(Width::of("flags\t\t: fpu sse2\n").bits, 128);
}
