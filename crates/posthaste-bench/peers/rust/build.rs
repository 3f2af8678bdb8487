//! Finds the tables of peers that ship them as a file beside their code and not as a function.
//!
//! Read from the very package that is linked, so that they are the tables of that version.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// The feature, the package that has the file, the file, and the variable that tells the code where it is.
const FILES: [(&str, &str, &str, &str); 2] = [
    ("obix", "obix", "migrations/20251204130225_obix_setup.sql", "OBIX_TABLES"),
    ("outbox-postgres", "outbox-postgres", "migrations/20260213152819_init.sql", "OUTBOX_POSTGRES_TABLES"),
];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=Cargo.lock");
    for (feature, package, file, variable) in FILES.into_iter().filter(|(feature, ..)| is_on(feature)) {
        println!("cargo::rustc-env={variable}={}", folder(feature, package).join(file).display());
    }
}

fn is_on(feature: &str) -> bool {
    let variable = format!("CARGO_FEATURE_{}", feature.to_uppercase().replace('-', "_"));
    std::env::var_os(variable).is_some()
}

/// Where cargo keeps the sources of a package. Only the packages of this feature and platform are looked at: those are
/// here already.
fn folder(feature: &str, package: &str) -> PathBuf {
    let platform = std::env::var("TARGET").expect("cargo names the target");
    let arguments =
        ["metadata", "--format-version=1", "--locked", "--no-default-features", "--features", feature];
    let cargo = std::env::var_os("CARGO").expect("cargo names itself");
    let output = Command::new(cargo).args(arguments).args(["--filter-platform", &platform]).output();
    let output = output.expect("cargo metadata runs");
    assert!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo metadata speaks JSON");
    let packages = metadata["packages"].as_array().expect("cargo metadata lists packages");
    let found = packages.iter().find(|found| found["name"] == package).expect("the package is a dependency");
    let manifest = Path::new(found["manifest_path"].as_str().expect("a package has a manifest"));
    manifest.parent().expect("a manifest lies in a folder").to_owned()
}
