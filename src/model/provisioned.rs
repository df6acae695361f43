//! Objects that come from the provisioning directory. They are changed there alone.

use std::collections::HashMap;

use crate::model::audit::{Target, TargetKind};

/// An object, and the file that it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    pub target: Target,
    /// The path of the file.
    pub file: String,
}

/// All objects that come from the provisioning directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Provisioned(HashMap<(TargetKind, String), Mark>);

impl Provisioned {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The file that an object comes from, if it is one of a file.
    pub fn file_of(&self, target: &Target) -> Option<&str> {
        let mark = self.0.get(&(target.kind, target.name.to_lowercase()));
        mark.map(|mark| mark.file.as_str())
    }

    pub fn targets(&self) -> impl Iterator<Item = &Target> + Clone {
        self.0.values().map(|mark| &mark.target)
    }
}

impl FromIterator<Mark> for Provisioned {
    fn from_iter<T: IntoIterator<Item = Mark>>(marks: T) -> Self {
        let key = |mark: &Mark| (mark.target.kind, mark.target.name.to_lowercase());
        Self(marks.into_iter().map(|mark| (key(&mark), mark)).collect())
    }
}
