//! Where events go: the webhook's URL, and whether it is asked.

use std::ops::RangeInclusive;

use serde_json::{Value, json};

use super::Subject;
use super::value::ticked;
use crate::admin::forms::field::{Field, Link};
use crate::admin::forms::form::Form;
use crate::model::destination::{Destination, EndpointUrl};

/// The id of the list of inspectors to choose from.
pub(crate) const INSPECTORS_ID: &str = "inspectors";

pub(crate) const URL: &str = "endpointUrl";
const SKIP: &str = "skipValidation";

const NEW_INSPECTOR: Link = Link {
    href: "/admin/new-inspector",
    text: "create an inspector",
};

/// `properties` are those of the answer that shows a subscription to `destination`. The query of its URL, which
/// may hold a key, is not filled in.
pub(crate) fn fill(form: &mut Form, destination: &Destination, properties: &Value) {
    form.set(URL, shown_url(destination).unwrap_or_default());
    form.set(SKIP, ticked(&properties["destination"]["properties"][SKIP]));
}

pub(crate) fn write(form: &Form, properties: &mut Value) {
    properties["destination"] = json!({
        "endpointType": "WebHook",
        "properties": { URL: form.filled(URL), SKIP: form.is_on(SKIP) },
    });
}

fn shown_url(destination: &Destination) -> Option<&str> {
    destination.endpoint_url()?.without_query()
}

/// Fills in a URL that nothing is sent to.
pub(crate) fn set_example(form: &mut Form) {
    form.set(URL, "https://receiver.example/");
}

/// For a name of so many characters.
pub(crate) fn name_field(form: &Form, characters: &RangeInclusive<usize>) -> Field {
    let (least, most) = (characters.start(), characters.end());
    Field::line("name", "Name", form)
        .hint(format!(
            "{least} to {most} letters, digits and hyphens, such as billing."
        ))
        .mono()
        .required()
}

/// The fields for the subscription that `subject` tells of; a new one has a name of so many characters.
pub(crate) fn fields(
    form: &Form,
    subject: &Subject<'_>,
    name_characters: &RangeInclusive<usize>,
) -> Vec<Field> {
    let skip = Field::tick(SKIP, "Skip validation", form)
        .hint("Only for a webhook of your own: it is not asked whether it wants events.");
    let url = Field::url(URL, "Endpoint URL", form)
        .mono()
        .suggesting(INSPECTORS_ID);
    let Some(definition) = subject.current else {
        let name = name_field(form, name_characters);
        let url = receiver_hint(url, subject);
        return vec![name, url.required(), skip];
    };
    if shown_url(&definition.destination).is_some() {
        let url = receiver_hint(url, subject);
        return vec![url.required(), skip];
    }
    let base = definition.destination.endpoint_url().map(EndpointUrl::base);
    let base = base.unwrap_or_default();
    let hint = format!("Leave it empty to keep {base} with whatever its query holds.");
    vec![url.hint(hint), skip]
}

/// Where somebody finds a receiver who has none, and which one is not called as a matter of course.
fn receiver_hint(url: Field, subject: &Subject<'_>) -> Field {
    let form = "Absolute, http or https. A key in its query is kept secret.";
    let closed = match subject.shuts_out_this_machine {
        true => {
            " Addresses of this machine and of private networks must be allowed first \
             (--egress-allow 127.0.0.1/32), or use an inspector."
        }
        false => "",
    };
    match subject.has_inspectors {
        true => url.hint(format!(
            "{form}{closed} To look at what arrives before there is a receiver, choose one of your \
             inspectors: they are suggested here."
        )),
        false => url
            .hint(format!(
                "{form}{closed} To look at what arrives before there is a receiver:"
            ))
            .leading_to(&NEW_INSPECTOR),
    }
}
