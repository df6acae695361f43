//! The form of an inspector.

use serde_json::json;

use crate::admin::forms::form_page::FormPage;
use crate::admin::forms::rows::{self, Part, Row, RowSection, part, section};
use crate::admin::page::*;
use crate::admin::paths::inspector_page;
use crate::broker::InspectorError;
use crate::model::inspector::{Inspector, InspectorDefinition};
use crate::model::limits::INSPECTED_REQUESTS_MAX;
use crate::model::name::InspectorName;
use crate::wire::resource::parse_inspector;

const NAME: Part =
    part(
        "",
        &[Row::line("name", "Name").apart().mono().required().hint(
            "3 to 50 letters, digits and hyphens, such as my-inspector. It is part of the URL.",
        )],
    );
const ANSWERS: Part = part("", &[
    Row::line("answers", "Responses").mono().required()
        .hint("Statuses in their order; the last one repeats. 503 503 200 fails twice and then behaves, 429x5 200 is \
            busy five times, 400 rejects, 410 is gone; timeout never answers, close hangs up."),
    Row::tick("perEvent", "Every event goes through the answers on its own")
        .hint("By the number of attempts before. Otherwise requests are counted, whatever is in them."),
]);
const DETAILS: RowSection = section("How it answers", &[part("", &[
    Row::whole("delayInMilliseconds", "Wait before each answer, in milliseconds").hint("Empty for none."),
    Row::whole("retryAfterInSeconds", "Retry-After with every 429 and 503, in seconds").hint("Empty for none."),
    Row::pairs("responseHeaders", "Headers of every answer", 3, ": ").hint("One a line, such as X-Answer: yes."),
    Row::text("responseBody", "Body of every answer", 3)
        .hint("A text, such as the error that a receiver of yours answers with. The page of the delivery shows it."),
])]);
const NEW: &[RowSection] = &[section("Inspector", &[NAME, ANSWERS]), DETAILS];
const CHANGE: &[RowSection] = &[section("Inspector", &[ANSWERS]), DETAILS];

/// The empty form.
pub(crate) async fn draft(visitor: Visitor) -> Response {
    let form = rows::form_of(NEW, &json!(InspectorDefinition::default()));
    draw_form(&visitor, None, &form, None)
}

/// Makes the inspector.
pub(crate) async fn create(
    State(site): State<Arc<Site>>,
    Submitted { visitor, form }: Submitted,
) -> PageResult {
    let known = site.views.inspectors().await?;
    let is_taken = |name: &InspectorName| known.iter().any(|each| each.name == *name);
    let name = rows::new_name(&form, "an inspector", InspectorName::parse, is_taken);
    let (name, definition) = match rows::both(name, definition(&form)) {
        Ok(read) => read,
        Err(refusals) => return Ok(draw_form(&visitor, None, &form, refusals)),
    };
    match site
        .broker
        .put_inspector(&visitor.caller, &name, definition)
        .await
    {
        Err(error @ InspectorError::TooMany) => {
            let refusal = Refusal::whole(sentence(&error.to_string()));
            return Ok(draw_form(&visitor, None, &form, Some(refusal)));
        }
        put => put?,
    };
    let message =
        format!("Inspector {name} has been created. Deliver to its URL, or subscribe it below.");
    flash_and_show(&visitor, &name, message).await
}

/// The form with the inspector in it.
pub(crate) async fn edit(
    Call {
        visitor,
        of: inspector,
        ..
    }: Call<Inspector>,
) -> PageResult {
    let form = rows::form_of(CHANGE, &json!(inspector.definition));
    Ok(draw_form(&visitor, Some(&inspector.name), &form, None))
}

/// Gives the inspector new answers.
pub(crate) async fn change(
    State(site): State<Arc<Site>>,
    Call {
        of, visitor, form, ..
    }: Call<Inspector>,
) -> PageResult {
    let name = of.name;
    let definition = match definition(&form) {
        Ok(definition) => definition,
        Err(refusals) => return Ok(draw_form(&visitor, Some(&name), &form, refusals)),
    };
    site.broker
        .put_inspector(&visitor.caller, &name, definition)
        .await?;
    let message = format!("Inspector {name} answers anew, from the first of its answers on.");
    flash_and_show(&visitor, &name, message).await
}

async fn flash_and_show(visitor: &Visitor, name: &InspectorName, message: String) -> PageResult {
    visitor
        .leave(Flash::done(message), &inspector_page(name))
        .await
}

/// What the form defines, or all that is wrong with it.
fn definition(form: &Form) -> Result<InspectorDefinition, Vec<Refusal>> {
    rows::read(CHANGE, form, |document| parse_inspector(&document))
}

fn draw_form(
    visitor: &Visitor,
    name: Option<&InspectorName>,
    form: &Form,
    refusals: impl IntoIterator<Item = Refusal>,
) -> Response {
    let title = match name {
        None => "New inspector".to_owned(),
        Some(name) => format!("Edit inspector {name}"),
    };
    let page = FormPage {
        intro: match name {
            None => format!(
                "A webhook inside this appliance. It agrees to be subscribed, answers as you say, and \
                 keeps its newest {INSPECTED_REQUESTS_MAX} requests. Nobody outside can reach it."
            ),
            Some(_) => "The answers begin again with the first one. Requests that are kept stay."
                .to_owned(),
        },
        sections: rows::fields(if name.is_none() { NEW } else { CHANGE }, form),
        button: if name.is_none() {
            "Create inspector"
        } else {
            "Save"
        },
        back: name.map_or_else(|| "/admin/inspectors".to_owned(), inspector_page),
    };
    page.draw(Frame::new(visitor, title), refusals)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_of_a_definition_defines_it_again() {
        let body = json!({
            "answers": "503x2 200", "delayInMilliseconds": 5, "retryAfterInSeconds": 7, "perEvent": true,
            "responseHeaders": { "x-a": "b: c", "x-d": "" }, "responseBody": "Not\n now",
        });
        for body in [body, json!({})] {
            let defined = parse_inspector(&body).expect("a definition");
            let form = rows::form_of(CHANGE, &json!(defined));
            assert_eq!(definition(&form), Ok(defined));
        }
    }

    #[test]
    fn what_is_wrong_is_told_by_its_field() {
        for (field, text) in [
            ("answers", ""),
            ("answers", "maybe"),
            ("delayInMilliseconds", "soon"),
            ("retryAfterInSeconds", "-1"),
            ("responseHeaders", "no colon"),
            ("responseHeaders", "a b: c"),
        ] {
            let mut form = Form::of([("answers", "200".to_owned())]);
            form.set(field, text);
            let refusals = definition(&form).expect_err(text);
            assert!(
                refusals[0].closeness(field) > 1,
                "{field} {text}: {refusals:?}"
            );
        }
    }
}
