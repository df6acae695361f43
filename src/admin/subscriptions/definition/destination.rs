//! Where events go: the webhook's URL, and whether it is asked.

use std::ops::RangeInclusive;

use serde_json::{Value, json};

use super::value::ticked;
use crate::admin::field::Field;
use crate::admin::form::Form;
use crate::model::subscription::SubscriptionDefinition;

const URL: &str = "endpointUrl";
const SKIP: &str = "skipValidation";

/// The URL is not among what answers show.
pub(super) fn fill(form: &mut Form, properties: &Value) {
    form.set(SKIP, ticked(&properties["destination"]["properties"][SKIP]));
}

pub(super) fn write(form: &Form, properties: &mut Value) {
    properties["destination"] = json!({
        "endpointType": "WebHook",
        "properties": { URL: form.filled(URL), SKIP: form.is_on(SKIP) },
    });
}

/// Fills in a URL that nothing is sent to.
pub(super) fn set_example(form: &mut Form) {
    form.set(URL, "https://receiver.example/");
}

/// For a name of so many characters.
pub(super) fn name_field(form: &Form, characters: &RangeInclusive<usize>) -> Field {
    let (least, most) = (characters.start(), characters.end());
    Field::line("name", "Name", form)
        .hint(format!(
            "{least} to {most} letters, digits and hyphens, such as billing."
        ))
        .mono()
        .required()
}

/// `current` is what the form changes; a new subscription has a name of so many characters.
pub(super) fn fields(
    form: &Form,
    current: Option<&SubscriptionDefinition>,
    name_characters: &RangeInclusive<usize>,
) -> Vec<Field> {
    let skip = Field::tick(SKIP, "Skip validation", form)
        .hint("Only for a webhook of your own: it is not asked whether it wants events.");
    let url = Field::url(URL, "Webhook URL", form).mono();
    match current {
        None => vec![
            name_field(form, name_characters),
            url.hint("Absolute, http or https. A key in its query is kept secret.")
                .required(),
            skip,
        ],
        Some(definition) => {
            let webhook = definition.destination.webhook();
            let base = webhook.map(|webhook| webhook.endpoint_url.base());
            let base = base.unwrap_or_default();
            let hint = format!("Leave it empty to keep {base} with whatever its query holds.");
            vec![url.hint(hint), skip]
        }
    }
}
