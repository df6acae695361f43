//! The key of a filter: the value of an event that it compares (rule 4.3).

use crate::model::filter::text::Text;
use crate::model::filter::value::Node;
use crate::model::filter::view::EventView;

/// Name of an envelope property, or a dotted path that begins with `data`. There are no escapes, so a property whose
/// name holds a dot cannot be addressed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilterKey {
    name: Text,
    path: Vec<Text>,
}

/// Why a text is not a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidKey {
    #[error("it must name a property, such as `subject` or `data.total`")]
    Empty,
    #[error("a part between two dots is empty")]
    EmptyPart,
}

impl FilterKey {
    /// Reads a key.
    pub fn parse(text: &str) -> Result<Self, InvalidKey> {
        if text.is_empty() {
            return Err(InvalidKey::Empty);
        }
        let path: Vec<Text> = text.split('.').map(Text::from).collect();
        if path.iter().any(|part| part.as_str().is_empty()) {
            return Err(InvalidKey::EmptyPart);
        }
        let name = Text::from(text);
        Ok(Self { name, path })
    }

    /// Returns the key as it was written.
    pub fn as_str(&self) -> &str {
        self.name.as_str()
    }

    /// Returns the value of `event` at the key; `None` if the event has no value there. A `null` is a value.
    pub(super) fn find<'v, 'a>(&self, event: &'v EventView<'a>) -> Option<&'v Node<'a>> {
        if let Some(rest) = self.below_data() {
            return event.data()?.at(rest);
        }
        let in_root = event.root().and_then(|root| root.at(&self.path));
        in_root.or_else(|| event.envelope(self.name.folded()))
    }

    /// Returns the path without its first part, if that part is `data`.
    fn below_data(&self) -> Option<&[Text]> {
        let (root, rest) = self
            .path
            .split_first()
            .expect("a key has at least one part");
        (root.folded() == "data").then_some(rest)
    }

    /// Returns whether the value at the key, or a remark about it, reveals some of the data that `event` carries.
    pub(super) fn reads_data(&self, event: &EventView<'_>) -> bool {
        let is_in_root = || {
            event
                .root()
                .is_some_and(|root| root.at(&self.path).is_some())
        };
        let is_missing = || event.envelope(self.name.folded()).is_none();
        self.below_data().is_some() || is_in_root() || (is_missing() && self.is_in_data(event))
    }

    /// Returns whether the key would be found with `data.` before it.
    pub(super) fn is_in_data(&self, event: &EventView<'_>) -> bool {
        event
            .data()
            .is_some_and(|data| data.at(&self.path).is_some())
    }
}
