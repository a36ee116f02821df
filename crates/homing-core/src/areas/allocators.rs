//! Functions that allocate for others or pass an allocation on. An allocation is not called after them but after who
//! called them.

/// Functions by their name without return type and arguments; `*` at either end stands for anything. Capitals count.
const ALLOCATORS: &[(&str, &[&str])] = &[
    (
        "the C library and the kernel",
        &[
            "malloc",
            "calloc",
            "realloc",
            "reallocarray",
            "memalign",
            "aligned_alloc",
            "posix_memalign",
            "valloc",
            "pvalloc",
            "strdup",
            "__strdup",
            "strndup",
            "__strndup",
            "wcsdup",
            "__libc_*alloc",
            "mmap",
            "mmap64",
            "__mmap*",
            "mremap",
            "brk",
            "sbrk",
        ],
    ),
    (
        "the C++ library",
        &[
            "operator new*",
            "std::*",
            "__gnu_cxx::*",
            "__gnu_debug::*",
            "__cxx11::*",
            "boost::pool*",
            "boost::container::*",
        ],
    ),
    (
        "the Rust library",
        &[
            "__rust_alloc*",
            "__rust_realloc",
            "__rdl_*",
            "__rg_*",
            "__rustc::*",
            "alloc::*",
            "core::*",
            "<alloc::*",
            "<core::*",
            "<std::*",
            "<T as alloc::*",
            "<T as core::*",
            "<I as core::*",
            "hashbrown::*",
            "<hashbrown::*",
        ],
    ),
    ("the Go runtime", &["runtime.*", "internal/runtime/*", "slices.*", "strings.*", "bytes.*"]),
    (
        "CPython and numpy",
        &[
            "PyMem_*",
            "_PyMem_*",
            "PyObject_*alloc",
            "PyObject_New*",
            "_PyObject_*",
            "PyDataMem_*",
            "npy_alloc_cache*",
        ],
    ),
    ("libraries for placement", &["numa_alloc*", "hwloc_alloc*", "memkind_*alloc*", "mbind_*alloc*"]),
    (
        "other allocators",
        &["je_*", "mi_*alloc*", "tc_*", "scalable_*alloc*", "kmp_*alloc*", "omp_*alloc*", "rte_*alloc*"],
    ),
    (
        "wrappers by their usual names",
        &[
            "xmalloc*",
            "xcalloc*",
            "xrealloc*",
            "xstrdup*",
            "*_malloc",
            "*_calloc",
            "*_realloc",
            "*_memalign",
            "*_strdup",
            "*_aligned_alloc",
            "*_malloc0",
            "g_*alloc*",
            "new_pages",
            "alloc_pages",
            "allocate_pages",
            "my_alloc",
            "safe_alloc",
            "checked_alloc",
            "av_*alloc*",
        ],
    ),
];

/// Files of which all functions are such: of inlined ones a recorder may know no more than the last part of the name.
/// Files of libstdc++, libc++ (without extension) and of Rust's library, with or without their directories.
const FILES: &[&str] = &[
    "new_allocator.h",
    "allocator.h",
    "alloc_traits.h",
    "allocated_ptr.h",
    "malloc_allocator.h",
    "stl_*.h",
    "vector.tcc",
    "deque.tcc",
    "basic_string.*",
    "hashtable_policy.h",
    "unique_ptr.h",
    "shared_ptr*.h",
    "allocate_at_least.h",
    "allocator_traits.h",
    "__split_buffer",
    "__hash_table",
    "__tree",
    "vector",
    "deque",
    "string",
    "new",
    "memory",
    "library/alloc/*",
    "library/core/*",
    "library/std/*",
    "/rustc/*",
    "raw_vec.rs",
    "spec_from_elem.rs",
    "spec_from_iter*.rs",
    "boxed.rs",
];

/// Whether a function only allocates for others. It may be written with return type and arguments; `file` is where it
/// stands, if that is known.
pub(super) fn is_allocator(function: &str, file: Option<&str>) -> bool {
    let name = bare(function);
    let in_file = |path: &str| {
        let file = path.rsplit('/').next().unwrap_or(path);
        FILES.iter().any(|pattern| matches(pattern, file) || matches(pattern, path))
    };
    if file.is_some_and(in_file) {
        return true;
    }
    ALLOCATORS.iter().flat_map(|(_, patterns)| patterns.iter()).any(|pattern| matches(pattern, name))
}

/// `*` stands for anything, also within.
fn matches(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        match rest.split_once(part) {
            Some((_, behind)) => rest = behind,
            None => return false,
        }
    }
    rest.ends_with(last)
}

/// The name of a function without return type and arguments: `void f<int>(char const*)` is `f<int>`.
fn bare(function: &str) -> &str {
    const ANONYMOUS: &str = "(anonymous";
    let (mut depth, mut begin, mut last) = (0_u32, 0, ' ');
    for (at, letter) in function.char_indices() {
        match letter {
            '(' if depth == 0 && !function[at..].starts_with(ANONYMOUS) => return &function[begin..at],
            '<' | '(' => depth += 1,
            // The arrow of a Rust function type closes nothing.
            '>' | ')' if last != '-' => depth = depth.saturating_sub(1),
            ' ' if depth == 0 && !function[begin..at].ends_with("operator") => begin = at + 1,
            _ => {}
        }
        last = letter;
    }
    &function[begin..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_that_allocate_for_others_are_known_and_no_others() {
        for allocator in [
            "malloc",
            "calloc",
            "__libc_malloc",
            "posix_memalign",
            "operator new(unsigned long)",
            "operator new[](unsigned long, std::align_val_t)",
            "std::allocator_traits<std::allocator<double> >::allocate(std::allocator<double>&, unsigned long)",
            "__gnu_cxx::new_allocator<double>::allocate(unsigned long, void const*)",
            "std::_Vector_base<double, std::allocator<double> >::_M_allocate(unsigned long)",
            "void std::vector<int, std::allocator<int> >::_M_realloc_insert<int const&>(iterator, int const&)",
            "std::__1::vector<int>::__append(unsigned long)",
            "xmalloc",
            "xcalloc",
            "new_pages",
            "safe_malloc",
            "default_malloc",
            "PyMem_RawMalloc",
            "_PyObject_GC_New",
            "runtime.mallocgc",
            "__rust_alloc",
            "alloc::alloc::alloc",
            "alloc::raw_vec::RawVec<T,A>::allocate_in",
            "<alloc::vec::Vec<T> as alloc::vec::spec_from_elem::SpecFromElem>::from_elem",
            "hwloc_alloc_membind",
            "numa_alloc_onnode",
            "mmap64",
            "g_malloc0_n",
        ] {
            assert!(is_allocator(allocator, Some("own.c")), "{allocator}");
        }
        for own in [
            "main",
            "Matrix::Matrix(std::vector<int> const&)",
            "std_setup",
            "load",
            "grid_new",
            "mallocate",
            "(anonymous namespace)::fill(std::vector<int>&)",
            "std::vector<int> make(int)",
            "<app::Grid as core::clone::Clone>::clone",
            "app::build::{{closure}}",
            "main.load",
        ] {
            assert!(!is_allocator(own, Some("own.c")), "{own}");
        }
        assert!(
            is_allocator("allocate", Some("new_allocator.h"))
                && is_allocator("_M_check", Some("stl_vector.h"))
        );
        assert!(is_allocator("grow_one<alloc::alloc::Global>", Some("library/alloc/src/raw_vec/mod.rs")));
        assert!(!is_allocator("allocate", Some("vectors.h")) && !is_allocator("allocate", None));
    }

    #[test]
    fn functions_are_bare_without_type_and_arguments() {
        for (function, name) in [
            ("main", "main"),
            ("void f<int>(char const*)", "f<int>"),
            ("std::pair<int, int> a::b<c(int)>(d)", "a::b<c(int)>"),
            ("(anonymous namespace)::f(int)", "(anonymous namespace)::f"),
            ("operator new(unsigned long)", "operator new"),
            ("app::call<fn(u32) -> u32>", "app::call<fn(u32) -> u32>"),
            ("", ""),
        ] {
            assert_eq!(bare(function), name);
        }
    }

    #[test]
    fn no_pattern_is_there_twice_or_stands_for_everything() {
        let mut all: Vec<&str> =
            ALLOCATORS.iter().flat_map(|(_, patterns)| patterns.iter().copied()).collect();
        let count = all.len();
        assert!(all.iter().all(|pattern| pattern.trim_matches('*').len() >= 3), "{all:?}");
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
    }
}
