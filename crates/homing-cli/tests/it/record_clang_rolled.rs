//! `--recorder clang` keeps loops with addresses without a step from being unrolled, and no others.

use crate::tsan::build;
use crate::tsan::build::Compiler;

const PROGRAM: &str = "\
double gather(const double *values, const long *places, long count) {
  double sum = 0;
  for (long i = 0; i < count; i++) sum += values[places[i]];
  return sum;
}
double all(const double *values, long count) {
  double sum = 0;
  for (long i = 0; i < count; i++) sum += values[i];
  return sum;
}
";

#[test]
fn loops_with_irregular_addresses_stay_rolled() {
    if !Compiler::ClangPass.there() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let source = directory.path().join("loops.c");
    std::fs::write(&source, PROGRAM).unwrap();
    let mut compile = build::homing();
    compile.args(["cc", "-O2", "-g", "-Rpass=loop-unroll", "-c"]).arg(&source);
    let output = compile.arg("-o").arg(directory.path().join("loops.o")).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    let unrolled = |line: u32| said.contains(&format!("loops.c:{line}:"));
    assert!(!unrolled(3) && unrolled(8), "{said}");
}
