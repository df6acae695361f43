//! Where events go: the webhook's URL, and whether it is asked.

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

pub(super) fn name_field(form: &Form) -> Field {
    Field::line("name", "Name", form)
        .hint("3 to 64 letters, digits and hyphens, such as billing.")
        .mono()
        .required()
}

/// `current` is what the form changes.
pub(super) fn fields(form: &Form, current: Option<&SubscriptionDefinition>) -> Vec<Field> {
    let skip = Field::tick(SKIP, "Skip validation", form)
        .hint("Only for a webhook of your own: it is not asked whether it wants events.");
    let url = Field::url(URL, "Webhook URL", form).mono();
    match current {
        None => vec![
            name_field(form),
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
