//! Templates, as far as a test can hold them: nothing inline, nothing unescaped (the pages' policy
//! forbids the first, and the second is how the texts of strangers become code).

use std::fs;
use std::path::PathBuf;

/// What no template may hold, and what to do instead.
const BANNED: [(&str, &str); 2] = [
    ("javascript:", "links lead to pages"),
    ("<style", "styles belong into static/everpost.css"),
];

#[test]
fn templates_hold_nothing_inline_and_nothing_unescaped() {
    let mut faults = Vec::new();
    for (path, text) in templates() {
        let dense: String = text.split_whitespace().collect();
        for (banned, instead) in BANNED {
            if dense.contains(banned) {
                faults.push(format!("{path}: {banned}: {instead}"));
            }
        }
        for name in printed_as_they_are(&dense) {
            if !is_captured(&dense, name) {
                faults.push(format!(
                    "{path}: {name}|safe: texts are escaped; for a part of a page make a struct with a template \
                     of its own, or capture it in this template"
                ));
            }
        }
        for tag in tags(&text) {
            faults.extend(
                faults_of(tag)
                    .into_iter()
                    .map(|fault| format!("{path}: {tag}: {fault}")),
            );
        }
        if text.split("<script").skip(1).any(has_content) {
            faults.push(format!("{path}: a script belongs into static/everpost.js"));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// What a template without its spaces prints unescaped.
fn printed_as_they_are(dense: &str) -> impl Iterator<Item = &str> {
    dense.match_indices("|safe").map(|(end, _)| {
        let before = &dense[..end];
        let is_name = |c: char| c.is_alphanumeric() || c == '_';
        let start = before.rfind(|c| !is_name(c)).map_or(0, |at| at + 1);
        &before[start..]
    })
}

/// Whether a name is only ever output of this template, escaped when it was captured (`{% let name %}`), or what
/// stands on one side of a space in it. A macro's parameter has to be captured under the same name.
fn is_captured(dense: &str, name: &str) -> bool {
    let captured = |name: &str| {
        let begins = |dash| dense.contains(&format!("{{%{dash}let{name}%}}"));
        !name.is_empty() && (begins("") || begins("-"))
    };
    let halves = "Some((number,unit))=text.split_once('')";
    captured(name)
        || (["number", "unit"].contains(&name) && dense.contains(halves) && captured("text"))
}

/// Only these types are printed unescaped, because their templates escape: parts of pages.
#[test]
fn only_parts_are_printed_as_they_are() {
    let mut faults = Vec::new();
    for (path, text) in files("src/admin", "rs") {
        if text.contains("HtmlSafe for") && !path.ends_with("src/admin/widgets/mod.rs") {
            faults.push(format!("{path}: use the macro `widgets::part`"));
        }
        for parts in text.split("part!(").skip(1) {
            let parts = parts.split(')').next().unwrap_or("");
            for part in parts
                .split(',')
                .map(str::trim)
                .filter(|part| is_type_name(part))
            {
                let part = part.split('<').next().unwrap_or(part);
                let item = ["(", " {", "<"].iter().find_map(|after| {
                    let (before, _) = text.split_once(&format!("struct {part}{after}"))?;
                    before.rsplit("\n\n").next()
                });
                if !item.is_some_and(|item| item.contains("#[template(")) {
                    faults.push(format!("{path}: {part} has no template of its own"));
                }
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn the_watch_notices_what_it_watches_for() {
    for tag in [
        "<a href={{ url }}>",
        "<a href='x'>",
        "<p style=\"color: red\">",
        "<p onclick=\"x()\">",
        "<p ONCLICK=\"x()\">",
    ] {
        let tags: Vec<&str> = tags(tag).collect();
        assert_eq!(
            tags.iter().filter(|tag| faults_of(tag).is_some()).count(),
            1,
            "{tag}"
        );
    }
    let sound = "<a href=\"{{ url }}\"{% if a == b %} class=\"x\"{% endif %} data-on=\"1\">";
    assert_eq!(tags(sound).find_map(faults_of), None);
    let captured = |dense: &str| printed_as_they_are(dense).all(|name| is_captured(dense, name));
    assert!(captured("{%letx%}{{y}}{%endlet%}{{x|safe}}"));
    for stolen in [
        "{{x|safe}}",
        "{%letx=y%}{{x|safe}}",
        "{%letx%}{%endlet%}{{y|safe}}",
        "{{x.y()|safe}}",
    ] {
        assert!(!captured(stolen), "{stolen}");
    }
    assert!(has_content(" defer>1</script>"));
    assert!(!has_content(" src=\"{{ x }}\" defer></script>"));
}

fn is_type_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_uppercase())
}

/// What stands between `<script` and `</script>` beyond the tag itself.
fn has_content(script: &str) -> bool {
    let inside = script.split("</script>").next().unwrap_or("");
    let content = inside.split_once('>').map_or("", |(_, content)| content);
    !content.trim().is_empty()
}

/// Tags with their attributes.
fn tags(text: &str) -> impl Iterator<Item = &str> {
    let starts = text.match_indices('<').map(|(at, _)| at);
    let opening = move |at: &usize| text[at + 1..].starts_with(|c: char| c.is_ascii_alphabetic());
    starts.filter(opening).map(|at| {
        let end = text[at..]
            .find('>')
            .map_or(text.len(), |length| at + length + 1);
        &text[at..end]
    })
}

/// What is wrong with the attributes of a tag.
fn faults_of(tag: &str) -> Option<&'static str> {
    let tag = without_blocks(tag);
    let mut rest = tag.as_str();
    while let Some((before, after)) = rest.split_once('=') {
        let name = before
            .rsplit(|c: char| c.is_whitespace() || c == '"')
            .next()
            .unwrap_or("");
        let name = name.to_ascii_lowercase();
        if name.starts_with("on") {
            return Some("a handler belongs into static/everpost.js");
        }
        if name == "style" {
            return Some("a style belongs into static/everpost.css");
        }
        let Some(value) = after.strip_prefix('"') else {
            return Some("attributes are quoted with \"");
        };
        rest = value.split_once('"').map_or("", |(_, rest)| rest);
    }
    None
}

/// The tag without `{% … %}`, whose comparisons look like attributes.
fn without_blocks(tag: &str) -> String {
    let mut parts = tag.split("{%");
    let mut text = parts.next().unwrap_or("").to_owned();
    for part in parts {
        text.push_str(part.split_once("%}").map_or("", |(_, after)| after));
    }
    text
}

/// The templates: paths and texts.
pub(crate) fn templates() -> Vec<(String, String)> {
    files("templates", "html")
}

fn files(folder: &str, extension: &str) -> Vec<(String, String)> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let mut found = Vec::new();
    let mut folders = vec![root.join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder of the project") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|each| each == extension) {
                let text = fs::read_to_string(&path).expect("a text file");
                found.push((path.to_string_lossy().into_owned(), text));
            }
        }
    }
    assert!(!found.is_empty(), "{folder} has no .{extension} files");
    found
}
