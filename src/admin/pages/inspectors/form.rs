//! The form of an inspector. It is turned into the document that the management API takes, so both have
//! the same checks.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::response::{IntoResponse, Redirect, Response};
use serde_json::{Map, Value, json};

use crate::admin::error::{PageError, PageResult};
use crate::admin::forms::faults;
use crate::admin::forms::field::{Field, Section};
use crate::admin::forms::form::{Form, Refusal};
use crate::admin::forms::form_page::FormPage;
use crate::admin::frame::Frame;
use crate::admin::paths::inspector_page;
use crate::admin::security::csrf::Submitted;
use crate::admin::security::session::Visitor;
use crate::admin::site::Site;
use crate::admin::widgets::Flash;
use crate::admin::widgets::print::sentence;
use crate::broker::InspectorError;
use crate::model::inspector::InspectorDefinition;
use crate::model::limits::{INSPECTED_REQUESTS_MAX, INSPECTOR_BODY_BYTES_MAX, INSPECTOR_DELAY_MAX};
use crate::model::name::InspectorName;
use crate::wire::resource;

const ANSWERS: &str = "answers";
const DELAY: &str = "delayInMilliseconds";
const RETRY_AFTER: &str = "retryAfterInSeconds";
const HEADERS: &str = "responseHeaders";
const BODY: &str = "responseBody";
const PER_EVENT: &str = "perEvent";

/// The empty form.
pub(crate) async fn draft(visitor: Visitor) -> Response {
    let form = form_of(&InspectorDefinition::default());
    draw_form(&visitor, None, &form, None)
}

/// Makes the inspector.
pub(crate) async fn create(
    State(site): State<Arc<Site>>,
    Submitted { visitor, form }: Submitted,
) -> PageResult {
    let name = new_name(&site, &form).await?;
    let (name, definition) = match faults::both(name, all_of(&form)) {
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
    visitor: Visitor,
    State(site): State<Arc<Site>>,
    Path(name): Path<String>,
) -> PageResult {
    let inspector = site.inspector(&name).await?;
    let form = form_of(&inspector.definition);
    Ok(draw_form(&visitor, Some(&inspector.name), &form, None))
}

/// Gives the inspector new answers.
pub(crate) async fn change(
    State(site): State<Arc<Site>>,
    Path(name): Path<String>,
    Submitted { visitor, form }: Submitted,
) -> PageResult {
    let name = site.inspector(&name).await?.name;
    let definition = match all_of(&form) {
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
    visitor.flash(Flash::done(message)).await?;
    Ok(Redirect::to(&inspector_page(name)).into_response())
}

async fn new_name(site: &Site, form: &Form) -> Result<Result<InspectorName, Refusal>, PageError> {
    let name = match InspectorName::parse(form.text("name")) {
        Ok(name) => name,
        Err(error) => return Ok(Err(Refusal::of("name", sentence(&error.to_string())))),
    };
    Ok(match site.views.inspector(name.clone()).await? {
        None => Ok(name),
        Some(_) => Err(Refusal::of(
            "name",
            format!("There is an inspector {name} already."),
        )),
    })
}

/// What the form defines, or all that is wrong with it.
fn all_of(form: &Form) -> Result<InspectorDefinition, Vec<Refusal>> {
    faults::gather(form, &form_of(&InspectorDefinition::default()), definition)
}

/// What the form defines.
fn definition(form: &Form) -> Result<InspectorDefinition, Refusal> {
    let document = json!({
        ANSWERS: form.text(ANSWERS),
        DELAY: form.number(DELAY),
        RETRY_AFTER: form.number(RETRY_AFTER),
        HEADERS: headers(form)?,
        BODY: form.raw(BODY).replace("\r\n", "\n"), // as browsers end lines
        PER_EVENT: form.is_on(PER_EVENT),
    });
    resource::parse_inspector(&document).map_err(Refusal::from)
}

/// Headers as they stand in the form: one a line, a colon after the name.
fn headers(form: &Form) -> Result<Map<String, Value>, Refusal> {
    let lines = form.raw(HEADERS).lines().map(str::trim);
    let read = |line: &str| {
        let (name, value) = line.split_once(':').ok_or_else(|| {
            Refusal::of(
                HEADERS,
                format!("{line:?} is no header; write Name: value."),
            )
        })?;
        Ok((name.trim().to_owned(), value.trim().into()))
    };
    lines.filter(|line| !line.is_empty()).map(read).collect()
}

fn form_of(definition: &InspectorDefinition) -> Form {
    let headers = definition.headers.iter();
    let headers: Vec<String> = headers
        .map(|(name, value)| format!("{name}: {value}"))
        .collect();
    let delay = definition.delay.as_millis();
    Form::of([
        (ANSWERS, definition.responses.to_string()),
        (
            DELAY,
            if delay == 0 {
                String::new()
            } else {
                delay.to_string()
            },
        ),
        (
            RETRY_AFTER,
            definition
                .retry_after_s
                .map_or_else(String::new, |s| s.to_string()),
        ),
        (HEADERS, headers.join("\n")),
        (BODY, definition.body.clone()),
        (
            PER_EVENT,
            if definition.per_event {
                "on".to_owned()
            } else {
                String::new()
            },
        ),
    ])
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
        sections: sections(form, name.is_none()),
        button: if name.is_none() {
            "Create inspector"
        } else {
            "Save"
        },
        back: name.map_or_else(|| "/admin/inspectors".to_owned(), inspector_page),
    };
    page.draw(Frame::new(visitor, title), refusals)
}

fn sections(form: &Form, is_new: bool) -> Vec<Section> {
    let name = Field::line("name", "Name", form)
        .hint("3 to 50 letters, digits and hyphens, such as my-inspector. It is part of the URL.")
        .mono()
        .required();
    let answers = Field::line(ANSWERS, "Responses", form)
        .hint(
            "Statuses in their order; the last one repeats. 503 503 200 fails twice and then behaves, \
             429x5 200 is busy five times, 400 rejects, 410 is gone; timeout never answers, close \
             hangs up.",
        )
        .mono()
        .required();
    let per_event = Field::tick(
        PER_EVENT,
        "Every event goes through the answers on its own",
        form,
    )
    .hint("By the number of attempts before. Otherwise requests are counted, whatever is in them.");
    let most = INSPECTOR_DELAY_MAX.as_millis();
    let delay = Field::number(DELAY, "Wait before each answer, in milliseconds", form)
        .hint(format!("Up to {most}. Empty for none."));
    let retry_after = Field::number(
        RETRY_AFTER,
        "Retry-After with every 429 and 503, in seconds",
        form,
    )
    .hint("Empty for none.");
    let headers = Field::area(HEADERS, "Headers of every answer", 3, form)
        .hint("One a line, such as X-Answer: yes.");
    let body = Field::area(BODY, "Body of every answer", 3, form).hint(format!(
        "A text of up to {INSPECTOR_BODY_BYTES_MAX} bytes, such as the error that a receiver of yours \
         answers with. The page of the delivery shows it."
    ));
    let mut first = if is_new { vec![name] } else { Vec::new() };
    first.extend([answers, per_event]);
    vec![
        Section {
            title: "Inspector",
            fields: first,
        },
        Section {
            title: "How it answers",
            fields: vec![delay, retry_after, headers, body],
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_of_a_definition_defines_it_again() {
        let body = json!({
            ANSWERS: "503x2 200", DELAY: 5, RETRY_AFTER: 7, PER_EVENT: true,
            HEADERS: { "x-a": "b: c", "x-d": "" }, BODY: "Not\n now",
        });
        for body in [body, json!({})] {
            let defined = resource::parse_inspector(&body).expect("a definition");
            assert_eq!(definition(&form_of(&defined)), Ok(defined));
        }
    }

    #[test]
    fn what_is_wrong_is_told_by_its_field() {
        for (field, text) in [
            (ANSWERS, ""),
            (ANSWERS, "maybe"),
            (DELAY, "soon"),
            (RETRY_AFTER, "-1"),
            (HEADERS, "no colon"),
            (HEADERS, "a b: c"),
        ] {
            let mut fields = vec![(ANSWERS, "200")];
            fields.retain(|(name, _)| *name != field);
            fields.push((field, text));
            let refusal = definition(&Form::of_pairs(fields.iter())).expect_err(text);
            assert!(refusal.is_about(field), "{field} {text}: {refusal:?}");
        }
    }
}
