//! Declares the module `tests` of `main.rs` where it is: the package has neither that module nor this script, because
//! the module needs crates that are not published.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cfg=in_repository");
}
