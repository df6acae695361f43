//! The components of the program, read from `Cargo.lock`, `Cargo.toml` and `deny.toml`.

use std::collections::{BTreeMap, BTreeSet};

use toml::{Table, Value};

/// The lock file of the build, which lists every package, including packages for tests.
const LOCK: &str = include_str!("../../Cargo.lock");

/// The manifest, which names the direct dependencies of the program.
const MANIFEST: &str = include_str!("../../Cargo.toml");

/// Rules for the licences that a component may have; `cargo deny` enforces them in the build.
const RULES: &str = include_str!("../../deny.toml");

/// Returns all direct and transitive dependencies of the program, on any system that the program can be built for, as
/// names with versions in alphabetical order.
pub(super) fn components() -> Vec<String> {
    let packages = packages(&table(LOCK));
    let manifest = table(MANIFEST);
    let wanted = manifest.get("dependencies").and_then(Value::as_table);
    let mut open: Vec<String> = wanted.into_iter().flat_map(Table::keys).cloned().collect();
    let mut found = BTreeSet::new();
    while let Some(name) = open.pop() {
        // A dependency has a version after its name only if the lock file holds several versions of the package.
        let (name, version) = name.split_once(' ').unwrap_or((name.as_str(), ""));
        for (package, needs) in packages.get(name).into_iter().flatten() {
            if (version.is_empty() || package == version)
                && found.insert(format!("{name} {package}"))
            {
                open.extend(needs.iter().cloned());
            }
        }
    }
    found.into_iter().collect()
}

/// Returns the licences that the build allows for the components.
pub(super) fn licences() -> Vec<String> {
    let rules = table(RULES);
    let allowed = rules.get("licenses").and_then(|rules| rules.get("allow"));
    texts(allowed)
}

/// The versions of a package, each with its dependencies.
type Versions = Vec<(String, Vec<String>)>;

fn packages(lock: &Table) -> BTreeMap<String, Versions> {
    let listed = lock.get("package").and_then(Value::as_array);
    let mut packages: BTreeMap<String, Versions> = BTreeMap::new();
    for package in listed.into_iter().flatten() {
        let text = |name: &str| {
            package
                .get(name)
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        let needs = texts(package.get("dependencies"));
        let versions = packages.entry(text("name").to_owned()).or_default();
        versions.push((text("version").to_owned(), needs));
    }
    packages
}

fn texts(list: Option<&Value>) -> Vec<String> {
    let values = list.and_then(Value::as_array).into_iter().flatten();
    values
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect()
}

fn table(text: &str) -> Table {
    text.parse().expect("the build has read it")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_s_components_are_listed_and_those_of_tests_are_not() {
        let components = components();
        let has = |name: &str| {
            let beginning = format!("{name} ");
            components.iter().any(|each| each.starts_with(&beginning))
        };
        for name in [
            "axum",
            "rusqlite",
            "libsqlite3-sys",
            "tokio",
            "hyper",
            "rustls",
        ] {
            assert!(has(name), "{name} is missing: {components:?}");
        }
        for name in ["everpost", "proptest", "allocation-counter"] {
            assert!(!has(name), "{name} is no part of it");
        }
    }

    #[test]
    fn licences_are_those_that_the_build_allows() {
        let licences = licences();
        assert!(licences.contains(&"MIT".to_owned()), "{licences:?}");
    }
}
