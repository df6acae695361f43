//! The words in which somebody wrote a definition.

use std::sync::Arc;

/// A document as its author wrote it, as JSON without secrets, for answers that show what was written: `PT90S`, where
/// another form of it is `PT1M30S`. Empty for a definition that nobody wrote.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AsWritten(pub Option<Arc<str>>);
