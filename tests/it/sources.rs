//! The project's own sources, as the tests of style and words read them: as `rustfmt` leaves them.

use std::fs;
use std::path::PathBuf;

const TESTS_ONLY: &str = "#[cfg(test)]";

pub(crate) fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Every Rust file below `folder`, as path from the root and text.
pub(crate) fn sources(folder: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder of the project") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).expect("a source file");
                let path = path.strip_prefix(root()).expect("below the root");
                found.push((path.to_string_lossy().into_owned(), text));
            }
        }
    }
    found.sort();
    assert!(!found.is_empty(), "{folder} has no sources");
    found
}

/// Everything that ships. The lines of tests beside the code are empty, so that the others keep their numbers.
pub(crate) fn product_sources() -> impl Iterator<Item = (String, String)> {
    let all = sources("src");
    let tests: Vec<String> = all
        .iter()
        .flat_map(|(path, text)| test_modules(path, text))
        .collect();
    all.into_iter()
        .filter(move |(path, _)| !tests.iter().any(|module| is_within(path, module)))
        .map(|(path, text)| (path, without_tests(&text)))
}

/// Lines of code with their numbers, without comments.
pub(crate) fn code_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text.lines().enumerate();
    lines
        .filter(|(_, line)| !line.trim_start().starts_with("//"))
        .map(|(index, line)| (index + 1, line))
}

/// A path that code names, from below the module that it was looked for in.
pub(crate) struct Import {
    pub(crate) line: usize,
    pub(crate) path: String,
}

/// Every path below `module` that `text` names, in a `use` of any depth or in the middle of an expression.
pub(crate) fn imports(text: &str, module: &str) -> Vec<Import> {
    let stem = format!("{module}::");
    let mut code = String::new();
    let mut starts = Vec::new();
    for (number, line) in code_lines(text) {
        starts.push((code.len(), number));
        code.push_str(line);
        code.push('\n');
    }
    let mut found = Vec::new();
    for (at, _) in code.match_indices(&stem) {
        let is_tail = code[..at].ends_with(|c: char| c.is_alphanumeric() || "_:".contains(c));
        if !is_tail {
            let mut tree = Tree {
                code: &code,
                at: at + stem.len(),
                leaves: Vec::new(),
            };
            tree.read(String::new());
            found.extend(tree.leaves.into_iter().map(|(at, path)| {
                let line = starts.partition_point(|(start, _)| *start <= at);
                Import {
                    line: starts[line - 1].1,
                    path,
                }
            }));
        }
    }
    found
}

/// A reader of one tree of imports, such as `{model::{self, Name}, store::*}`.
struct Tree<'a> {
    code: &'a str,
    at: usize,
    leaves: Vec<(usize, String)>,
}

impl Tree<'_> {
    fn read(&mut self, stem: String) {
        self.skip(char::is_whitespace);
        if self.take("{") {
            while !self.take("}") && self.at < self.code.len() {
                let before = self.at;
                self.read(stem.clone());
                self.skip(|c| !",{}".contains(c)); // `as other`
                self.take(",");
                self.skip(char::is_whitespace);
                assert!(self.at > before, "a tree of imports is not understood");
            }
            return;
        }
        let from = self.at;
        self.skip(|c| c.is_alphanumeric() || "_*".contains(c));
        let name = &self.code[from..self.at];
        let path = match (stem.is_empty(), name) {
            (_, "self") => stem,
            (true, name) => name.to_owned(),
            (false, name) => format!("{stem}::{name}"),
        };
        let goes_on = self.code[self.at..]
            .strip_prefix("::")
            .is_some_and(|rest| rest.starts_with(|c: char| c.is_alphabetic() || "_{*".contains(c)));
        if goes_on {
            self.at += 2;
            self.read(path);
        } else {
            self.leaves.push((from, path));
        }
    }

    fn take(&mut self, token: &str) -> bool {
        let taken = self.code[self.at..].starts_with(token);
        self.at += if taken { token.len() } else { 0 };
        taken
    }

    fn skip(&mut self, passes: impl Fn(char) -> bool) {
        let rest = &self.code[self.at..];
        self.at += rest.find(|c| !passes(c)).unwrap_or(rest.len());
    }
}

/// The modules that `text` declares for tests alone, as paths without `.rs`.
fn test_modules(path: &str, text: &str) -> Vec<String> {
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let own = match path.strip_suffix(".rs") {
        Some(stem) if !["mod", "lib", "main"].contains(&stem.rsplit('/').next().unwrap_or("")) => {
            stem
        }
        _ => folder,
    };
    let mut found = Vec::new();
    for (_, item) in text
        .match_indices(TESTS_ONLY)
        .map(|(at, _)| text.split_at(at))
    {
        let mut lines = item.lines().map(str::trim).skip(1);
        let mut renamed = None;
        let head = lines.find(|line| {
            let file = line.strip_prefix("#[path = \"");
            renamed = renamed.or(file.and_then(|file| file.strip_suffix(".rs\"]")));
            !line.starts_with('#')
        });
        let name = head
            .and_then(|head| head.split_once("mod "))
            .and_then(|(_, rest)| rest.split([';', ' ']).next());
        if let Some(name) = name {
            let module = renamed.map(|file| format!("{folder}/{file}"));
            found.push(module.unwrap_or_else(|| format!("{own}/{name}")));
        }
    }
    found
}

fn is_within(path: &str, module: &str) -> bool {
    let rest = path.strip_prefix(module);
    rest.is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
}

/// Empties the lines of items behind `#[cfg(test)]`, whose ends `rustfmt` puts below their beginnings.
fn without_tests(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line.trim() != TESTS_ONLY {
            kept.push_str(line);
            kept.push('\n');
            continue;
        }
        kept.push('\n');
        let indent = line.len() - line.trim_start().len();
        let mut is_head = true;
        for line in lines.by_ref() {
            kept.push('\n');
            let rest = line.trim_start();
            let is_attribute = is_head && rest.starts_with(['#', '/']);
            let is_level = line.len() == rest.len() + indent;
            let may_end = is_head || is_level && rest.starts_with(['}', ')']);
            if may_end && !is_attribute && rest.ends_with([';', '}', ',']) {
                break;
            }
            is_head = is_attribute;
        }
    }
    kept
}

#[test]
fn tests_beside_the_code_are_left_out() {
    let source = r#"
#[cfg(test)]
mod tests;
use a;

impl A {
    #[cfg(test)]
    /// Of tests.
    #[must_use]
    pub fn no(
        &self,
    ) -> usize {
        {
        }
    }

    fn yes() {
        #[cfg(test)]
        tests::check(1);
        done();
    }
}
#[cfg(test)]
mod more {
    use super::A;

    const NO: &str = r"
    {
{}";
}
struct B;
"#;
    let kept = without_tests(source);
    assert_eq!(kept.lines().count(), source.lines().count());
    let kept: Vec<&str> = kept
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    let expected = [
        "use a;",
        "impl A {",
        "fn yes() {",
        "done();",
        "}",
        "}",
        "struct B;",
    ];
    assert_eq!(kept, expected);
    assert_eq!(
        test_modules("src/a/mod.rs", source),
        ["src/a/tests", "src/a/more"]
    );
    assert_eq!(
        test_modules("src/a.rs", source),
        ["src/a/tests", "src/a/more"]
    );
    let renamed = "#[cfg(test)]\n#[path = \"b_tests.rs\"]\nmod tests;\n";
    assert_eq!(test_modules("src/a/b.rs", renamed), ["src/a/b_tests"]);
    assert!(is_within("src/a/tests/deep/b.rs", "src/a/tests"));
    assert!(!is_within("src/a/tests_of.rs", "src/a/tests"));
}

#[test]
fn no_test_counts_as_product() {
    for (path, text) in product_sources() {
        assert!(
            !text.contains("#[test]"),
            "{path}: a test is taken for what ships"
        );
    }
}

#[test]
fn imports_are_found_at_any_depth() {
    let source = "
use crate::model::Name;
// use crate::not::this;
use crate::{
    store::{
        self, Peeked,
        views::{Page, Views as Lists},
    },
    wire,
};
fn f(it: &crate::base::Clock) -> other_crate::No {
    crate::broker::read::<u8>(crate::base::NOW, crate::admin::*)
}
";
    let found: Vec<(usize, String)> = imports(source, "crate")
        .into_iter()
        .map(|import| (import.line, import.path))
        .collect();
    let expected = [
        (2, "model::Name"),
        (6, "store"),
        (6, "store::Peeked"),
        (7, "store::views::Page"),
        (7, "store::views::Views"),
        (9, "wire"),
        (11, "base::Clock"),
        (12, "broker::read"),
        (12, "base::NOW"),
        (12, "admin::*"),
    ];
    let expected = expected.map(|(line, path)| (line, path.to_owned()));
    assert_eq!(found, expected);
    let within = imports("use crate::a::b::{C, d::E};", "crate::a::b");
    let within: Vec<&str> = within.iter().map(|import| &*import.path).collect();
    assert_eq!(within, ["C", "d::E"]);
}
