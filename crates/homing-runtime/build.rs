//! What the shared library is linked with.

fn main() {
    // Its name for the dynamic linker: another number means another interface.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libhoming.so.0");
    // Its thread runs its code: dlclose must not take that away.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo:rerun-if-changed=build.rs");
}
