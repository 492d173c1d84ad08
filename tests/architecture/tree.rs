//! The rules for the repository as a whole: what lies at its top, what no file may hold, and that nothing in tests/ is left unused.

use std::collections::{BTreeMap, BTreeSet};

use crate::rules::Violation;

/// What may lie at the top beside names that begin with a dot.
const TOP: [&str; 8] = ["Cargo.toml", "Cargo.lock", "LICENSE", "README.md", "connector", "infra", "lambda", "tests"];

/// Folders of one machine; written apart so that this file does not hold them itself.
const MACHINE_PATHS: [&str; 4] = [concat!("/wo", "rk/"), concat!("/ho", "me/"), concat!("/ro", "ot/"), concat!("/tm", "p/wt")];

/// The tracked files by path; text where they are UTF-8.
pub(crate) type Tree = BTreeMap<String, Option<String>>;

pub(crate) fn check(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for (file, text) in tree {
        let mut add = |line: usize, rule: String| found.push(Violation { file: file.clone(), line, rule });
        let top = file.split('/').next().unwrap_or_default();
        if !top.starts_with('.') && !TOP.contains(&top) {
            add(1, format!("`{top}` has no place at the top of the repository; it holds {}", TOP.join(", ")));
        }
        for (number, line) in text.iter().flat_map(|text| text.lines().enumerate()) {
            if let Some(path) = machine_path(line) {
                add(number + 1, format!("holds `{path}`, a folder of one machine"));
            }
        }
    }
    found.extend(unused_fixtures(tree));
    found.extend(unwired_tests(tree));
    found
}

fn machine_path(line: &str) -> Option<&'static str> {
    MACHINE_PATHS.into_iter().find(|path| {
        line.match_indices(path).any(|(at, _)| {
            let before = line[..at].chars().next_back();
            !before.is_some_and(|c| c.is_alphanumeric() || "._-/}$".contains(c))
        })
    })
}

/// Every folder of fixtures must be named by some source.
fn unused_fixtures(tree: &Tree) -> Vec<Violation> {
    let folders: BTreeSet<&str> = tree
        .keys()
        .filter(|file| !file.ends_with(".py"))
        .filter_map(|file| file.strip_prefix("tests/fixtures/")?.split_once('/').map(|(folder, _)| folder))
        .collect();
    let sources: Vec<&str> = tree.iter().filter(|(file, _)| file.ends_with(".rs")).filter_map(|(_, text)| text.as_deref()).collect();
    let edge = |c: Option<char>| matches!(c, Some('"' | '/'));
    let named = |folder: &str, text: &str| {
        text.match_indices(folder).any(|(at, _)| edge(text[..at].chars().next_back()) && edge(text[at + folder.len()..].chars().next()))
    };
    let unused = folders.into_iter().filter(|folder| !sources.iter().any(|text| named(folder, text)));
    let violation = |folder| Violation { file: format!("tests/fixtures/{folder}"), line: 1, rule: "no test names this folder".to_owned() };
    unused.map(violation).collect()
}

/// Cargo does not look into the tests/ of a workspace: every program there must be declared by a package.
fn unwired_tests(tree: &Tree) -> Vec<Violation> {
    let manifests: Vec<&str> =
        tree.iter().filter(|(file, _)| file.ends_with("/Cargo.toml")).filter_map(|(_, text)| text.as_deref()).collect();
    let programs = tree.keys().filter(|file| file.strip_prefix("tests/").is_some_and(|rest| rest.split('/').nth(1) == Some("main.rs")));
    let wired = |file: &str| manifests.iter().any(|manifest| manifest.contains(&format!("\"../{file}\"")));
    let violation =
        |file: &String| Violation { file: file.clone(), line: 1, rule: "no package runs this test: declare it under [[test]]".to_owned() };
    programs.filter(|file| !wired(file)).map(violation).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(files: &[(&str, &str)]) -> Vec<String> {
        let tree = files.iter().map(|(file, text)| ((*file).to_owned(), Some((*text).to_owned()))).collect();
        check(&tree).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn only_what_the_design_names_lies_at_the_top() {
        assert_eq!(rules(&[("connector/src/lib.rs", ""), (".github/workflows/ci.yml", ""), ("README.md", "")]), [] as [&str; 0]);
        assert!(rules(&[("scripts/run.sh", "")])[0].contains("`scripts` has no place"));
        assert!(rules(&[("Makefile", "")])[0].contains("`Makefile` has no place"));
    }

    #[test]
    fn no_folder_of_one_machine_is_written_down() {
        let line = |path: &str| format!("first\ncd {path}x");
        for path in MACHINE_PATHS {
            assert!(rules(&[("README.md", &line(path))])[0].starts_with("README.md:2: "), "{path}");
        }
        assert_eq!(rules(&[("README.md", &line(&format!("https://example.com{}", MACHINE_PATHS[1])))]), [] as [&str; 0]);
        assert_eq!(rules(&[("README.md", &line("./target/"))]), [] as [&str; 0]);
    }

    #[test]
    fn a_folder_of_fixtures_that_nobody_reads_is_found() {
        let fixture = ("tests/fixtures/qldb/case.ion", "");
        assert!(rules(&[fixture, ("tests/pure.rs", "// the qldb case")])[0].starts_with("tests/fixtures/qldb:1: "));
        assert_eq!(rules(&[fixture, ("tests/pure.rs", "join(\"qldb\")")]), [] as [&str; 0]);
        assert_eq!(rules(&[fixture, ("tests/pure.rs", "\"../tests/fixtures/qldb/case.ion\"")]), [] as [&str; 0]);
        assert_eq!(rules(&[("tests/fixtures/generator/a.py", "")]), [] as [&str; 0]);
    }

    #[test]
    fn a_test_that_no_package_runs_is_found() {
        let program = ("tests/pure/main.rs", "");
        assert!(rules(&[program])[0].contains("[[test]]"));
        assert_eq!(rules(&[program, ("connector/Cargo.toml", "path = \"../tests/pure/main.rs\"")]), [] as [&str; 0]);
        assert_eq!(rules(&[("tests/pure/kpl.rs", "")]), [] as [&str; 0]);
    }
}
