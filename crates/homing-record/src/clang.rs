//! The recorder whose records clang compiles into the program (`docs/recording-clang.md`). What runs there is the
//! runtime of the tsan recorder.

use crate::recorders::Recorder;
use crate::tsan;

pub(crate) const ENTRY: Recorder = Recorder {
    name: "clang",
    summary: "programs compiled and linked with `homing cc` or `homing c++`: the fastest",
    follows: false,
    has_windows: true,
    nothing: "the program holds no recording runtime: compile and link it with `homing cc` or `homing c++`",
    suits: Some(|program| tsan::is_linked_with(program) && tsan::has_records(program)),
    lacks: |_| Ok(()),
    start: tsan::start,
};
