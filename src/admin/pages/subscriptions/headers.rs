//! The headers of one's own that a subscription sends, as a list to read.

use crate::model::destination::{AttributeValue, DeliveryAttributeMapping};

/// One header ready to print.
pub(crate) struct HeaderRow {
    pub(crate) name: String,
    pub(crate) value: String,
    /// How the value comes about.
    pub(crate) kind: &'static str,
}

/// The headers; secret values are hidden.
pub(crate) fn rows(mappings: &[DeliveryAttributeMapping]) -> Vec<HeaderRow> {
    let row = |mapping: &DeliveryAttributeMapping| {
        let (kind, value) = match &mapping.value {
            AttributeValue::Static {
                is_secret: true, ..
            } => ("secret", "hidden".to_owned()),
            AttributeValue::Static { value, .. } => ("static", value.reveal().to_owned()),
            AttributeValue::Dynamic { source_field } => ("from the event", source_field.clone()),
        };
        HeaderRow {
            name: mapping.name.clone(),
            value,
            kind,
        }
    };
    mappings.iter().map(row).collect()
}
