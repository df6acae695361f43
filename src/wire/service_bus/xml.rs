//! Small XML documents as trees.

use std::borrow::Cow;
use std::fmt;

use quick_xml::Reader;
use quick_xml::escape::{resolve_predefined_entity, unescape};
use quick_xml::events::{BytesStart, Event};

/// The maximum nesting depth of elements: twice the depth that clients write.
const DEPTH_MAX: usize = 24;

/// The maximum number of attributes of an element: many times the number that clients write. The limit bounds the
/// comparisons of each attribute with the previous ones.
const ATTRIBUTES_MAX: usize = 64;

/// The reason why a text is not a valid document.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoXml {
    #[error("it is no XML: {0}")]
    Malformed(String),
    #[error("a document type declaration is not read; leave it out")]
    DocumentType,
    #[error("&{0}; is not known; only the entities of XML itself are")]
    Entity(String),
    #[error("its elements stand more than {DEPTH_MAX} deep in each other")]
    TooDeep,
    #[error("an element has more than {ATTRIBUTES_MAX} attributes")]
    TooManyAttributes,
    #[error("it has no element")]
    Empty,
}

/// An element. Parsed names have no namespace prefix.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Element {
    pub name: String,
    attributes: Vec<(String, String)>,
    pub text: String,
    pub children: Vec<Element>,
}

impl Element {
    /// An element without anything in it.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            ..Self::default()
        }
    }

    /// An element with a text.
    pub fn of_text(name: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            ..Self::new(name)
        }
    }

    pub fn with_attribute(mut self, name: &str, value: &str) -> Self {
        self.attributes.push((name.to_owned(), value.to_owned()));
        self
    }

    pub fn with_children(mut self, children: impl IntoIterator<Item = Self>) -> Self {
        self.children.extend(children);
        self
    }

    /// The first child of that name.
    pub fn child(&self, name: &str) -> Option<&Self> {
        self.children.iter().find(|each| each.name == name)
    }

    pub fn attribute(&self, name: &str) -> Option<&str> {
        let mut all = self.attributes.iter();
        let found = all.find(|(each, _)| each == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Reads a document.
    pub fn parse(text: &str) -> Result<Self, NoXml> {
        let mut reader = Reader::from_str(text);
        // The last element is the innermost open one. The first element represents the document.
        let mut open = vec![Self::default()];
        loop {
            let event = reader.read_event();
            match event.map_err(|error| NoXml::Malformed(error.to_string()))? {
                Event::Start(start) => {
                    if open.len() > DEPTH_MAX {
                        return Err(NoXml::TooDeep);
                    }
                    open.push(Self::of_start(&start)?);
                }
                Event::Empty(start) => close(&mut open, Self::of_start(&start)?),
                Event::End(_) => {
                    let ended = open.pop().unwrap_or_default();
                    close(&mut open, ended);
                }
                Event::Text(text) => write(&mut open, &decoded(text.decode())?),
                Event::CData(text) => write(&mut open, &decoded(text.decode())?),
                Event::GeneralRef(name) => write(&mut open, &resolved(&decoded(name.decode())?)?),
                Event::DocType(_) => return Err(NoXml::DocumentType),
                Event::Comment(_) | Event::Decl(_) | Event::PI(_) => {}
                Event::Eof => break,
            }
        }
        match (open.len(), open.swap_remove(0).children.pop()) {
            (1, Some(root)) => Ok(root),
            (1, None) => Err(NoXml::Empty),
            (_, _) => Err(NoXml::Malformed("it ends too early".to_owned())),
        }
    }

    fn of_start(start: &BytesStart<'_>) -> Result<Self, NoXml> {
        let mut element = Self::new(local_name(start.local_name().as_ref())?);
        for (place, attribute) in start.attributes().enumerate() {
            if place == ATTRIBUTES_MAX {
                return Err(NoXml::TooManyAttributes);
            }
            let malformed = |error: &dyn fmt::Display| NoXml::Malformed(error.to_string());
            let read_attribute = attribute.map_err(|error| malformed(&error))?;
            let value = String::from_utf8_lossy(&read_attribute.value);
            let value = unescape(&value).map_err(|error| malformed(&error))?;
            let name = local_name(read_attribute.key.local_name().as_ref())?;
            // If names differ only in their prefix, the first attribute is used.
            if element.attribute(&name).is_none() {
                element = element.with_attribute(&name, &value);
            }
        }
        Ok(element)
    }
}

/// Returns a name without its prefix. A name that is not valid in XML is an error, because written documents must be
/// readable again.
fn local_name(name: &[u8]) -> Result<String, NoXml> {
    let name = String::from_utf8_lossy(name);
    let begins = |c: char| c.is_alphabetic() || c == '_' || !c.is_ascii();
    let goes_on = |c: char| begins(c) || c.is_ascii_digit() || matches!(c, '-' | '.');
    if name.starts_with(begins) && name.chars().all(goes_on) {
        return Ok(name.into_owned());
    }
    Err(NoXml::Malformed(format!("{name:?} is no name")))
}

fn decoded<E: fmt::Display>(text: Result<Cow<'_, str>, E>) -> Result<Cow<'_, str>, NoXml> {
    text.map_err(|error| NoXml::Malformed(error.to_string()))
}

fn write(open: &mut [Element], text: &str) {
    if let Some(last) = open.last_mut() {
        last.text.push_str(text);
    }
}

fn close(open: &mut [Element], ended: Element) {
    if let Some(parent) = open.last_mut() {
        parent.children.push(ended);
    }
}

/// Returns the text of an entity or character reference; `name` is the part between `&` and `;`.
fn resolved(name: &str) -> Result<String, NoXml> {
    if let Some(text) = resolve_predefined_entity(name) {
        return Ok(text.to_owned());
    }
    let number = match name.strip_prefix('#') {
        Some(number) => match number.strip_prefix('x') {
            Some(number) => u32::from_str_radix(number, 16).ok(),
            None => number.parse().ok(),
        },
        None => None,
    };
    let found = number.and_then(char::from_u32).map(String::from);
    found.ok_or_else(|| NoXml::Entity(name.to_owned()))
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<{}", self.name)?;
        for (name, value) in &self.attributes {
            write!(f, " {name}=\"{}\"", escaped(value))?;
        }
        if self.text.is_empty() && self.children.is_empty() {
            return f.write_str("/>");
        }
        write!(f, ">{}", escaped(&self.text))?;
        for child in &self.children {
            child.fmt(f)?;
        }
        write!(f, "</{}>", self.name)
    }
}

/// Escapes a text for an element or an attribute.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            // XML cannot represent these characters.
            '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            c if c.is_control() && !matches!(c, '\n' | '\t') => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        let element = Element::new("a")
            .with_attribute("b", "1 < 2 & \"3\"")
            .with_children([
                Element::of_text("c", "größer > kleiner\n"),
                Element::new("d"),
            ]);
        let text = element.to_string();
        let expected = "<a b=\"1 &lt; 2 &amp; &quot;3&quot;\"><c>größer &gt; kleiner\n</c><d/></a>";
        assert_eq!(text, expected);
        assert_eq!(Element::parse(&text), Ok(element));
    }

    #[test]
    fn prefixes_do_not_matter_and_references_are_resolved() {
        let text = "<?xml version=\"1.0\"?><!-- --><x:a xmlns:x=\"u\" x:type='q'>\
                    <y:b>1 &#60; &#x32;<![CDATA[ & 3]]></y:b></x:a>";
        let read = Element::parse(text).expect("a document");
        assert_eq!(read.attribute("type"), Some("q"));
        assert_eq!(read.child("b").map(|b| b.text.as_str()), Some("1 < 2 & 3"));
        assert_eq!(read.child("c"), None);
    }

    #[test]
    fn names_that_differ_in_their_prefixes_alone_are_written_once() {
        let read = Element::parse("<a x:b='1' y:b='2'/>").expect("a document");
        assert_eq!(read.to_string(), "<a b=\"1\"/>");
    }

    #[test]
    fn characters_that_xml_does_not_have_are_not_written() {
        for character in ["\0", "\u{1}", "\r", "\u{fffe}", "\u{ffff}"] {
            let element = Element::of_text("a", character).with_attribute("b", character);
            assert_eq!(element.to_string(), "<a b=\"\u{fffd}\">\u{fffd}</a>");
        }
    }

    #[test]
    fn nothing_else_is_read() {
        let attributes: String = (0..=ATTRIBUTES_MAX)
            .map(|number| format!(" a{number}=''"))
            .collect();
        let wide = format!("<a{attributes}/>");
        let deep = "<a>".repeat(100);
        for (text, expected) in [
            ("", Some(NoXml::Empty)),
            ("{}", Some(NoXml::Empty)),
            ("<a>&b;</a>", Some(NoXml::Entity("b".to_owned()))),
            (
                "<!DOCTYPE a [<!ENTITY b 'c'>]><a/>",
                Some(NoXml::DocumentType),
            ),
            (&deep, Some(NoXml::TooDeep)),
            (&wide, Some(NoXml::TooManyAttributes)),
            ("<a><b></a>", None),
            ("<a>", None),
            ("<a b=c/>", None),
            ("<a xmlns:=''/>", None),
            ("<a:!b/>", None),
            ("<a:/>", None),
        ] {
            let error = Element::parse(text).expect_err(text);
            match expected {
                Some(expected) => assert_eq!(error, expected),
                None => assert!(matches!(error, NoXml::Malformed(_)), "{text}: {error:?}"),
            }
        }
    }
}
