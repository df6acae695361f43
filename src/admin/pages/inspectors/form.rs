//! The form of an inspector.

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::admin::forms::document::pairs;
use crate::admin::forms::form::{all_of, both, number};
use crate::admin::forms::sheet::{named, of_fields};
use crate::admin::page::*;
use crate::admin::paths::inspector_page;
use crate::model::inspector::{Inspector, InspectorDefinition};
use crate::model::name::InspectorName;
use crate::wire::resource::parse_inspector;

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct InspectorForm {
    /// Of a new one alone.
    name: String,
    answers: String,
    per_event: String,
    delay_in_milliseconds: String,
    retry_after_in_seconds: String,
    response_headers: String,
    response_body: String,
}

#[derive(Template)]
#[template(path = "pages/inspector_form.html")]
struct InspectorFormPage {
    frame: Frame,
    form: Filled<InspectorForm>,
    back: String,
    is_new: bool,
}

/// A new one.
impl Sheet<()> for InspectorForm {
    fn begin(_: &Call) -> PageResult<Self> {
        Ok(Self::of(&InspectorDefinition::default()))
    }

    fn page(call: &Call, form: Filled<Self>) -> impl Template {
        InspectorFormPage {
            frame: Frame::new(&call.visitor, "New inspector"),
            form,
            back: "/admin/inspectors".to_owned(),
            is_new: true,
        }
    }

    async fn save(&self, call: &Call) -> Result<Response, Refused> {
        let known = call.views.inspectors().await.map_err(PageError::from)?;
        let is_taken = |name: &InspectorName| known.iter().any(|each| each.name == *name);
        let name = named(&self.name, "an inspector", InspectorName::parse, is_taken);
        let (name, definition) = both(name, self.read())?;
        call.broker
            .put_inspector(call.by(), &name, definition)
            .await
            .map_err(PageError::from)?;
        let next = "has been created. Deliver to its URL, or subscribe it below.";
        let said = Flash::done(format!("Inspector {name} {next}"));
        Ok(call.visitor.leave(said, &inspector_page(&name)).await?)
    }
}

/// New answers.
impl Sheet<Inspector> for InspectorForm {
    fn begin(call: &Call<Inspector>) -> PageResult<Self> {
        Ok(Self::of(&call.of.definition))
    }

    fn page(call: &Call<Inspector>, form: Filled<Self>) -> impl Template {
        InspectorFormPage {
            frame: Frame::new(&call.visitor, format!("Edit inspector {}", call.of.name)),
            form,
            back: call.of.page(),
            is_new: false,
        }
    }

    async fn save(&self, call: &Call<Inspector>) -> Result<Response, Refused> {
        let name = &call.of.name;
        call.broker
            .put_inspector(call.by(), name, self.read()?)
            .await
            .map_err(PageError::from)?;
        let said = format!("Inspector {name} answers anew, from the first of its answers on.");
        Ok(call
            .visitor
            .leave(Flash::done(said), &call.of.page())
            .await?)
    }
}

impl InspectorForm {
    fn of(definition: &InspectorDefinition) -> Self {
        let headers = definition.headers.iter();
        let headers: Vec<_> = headers
            .map(|(name, value)| format!("{name}: {value}"))
            .collect();
        let delay = definition.delay.as_millis();
        let retry_after = definition.retry_after_s;
        Self {
            answers: definition.responses.to_string(),
            per_event: if definition.per_event { "on" } else { "" }.to_owned(),
            delay_in_milliseconds: Some(delay)
                .filter(|delay| *delay > 0)
                .map_or_else(String::new, |delay| delay.to_string()),
            retry_after_in_seconds: retry_after.map_or_else(String::new, |it| it.to_string()),
            response_headers: headers.join("\n"),
            response_body: definition.body.clone(),
            ..Self::default()
        }
    }

    /// What the form defines, or all that is wrong with it.
    fn read(&self) -> Result<InspectorDefinition, Vec<Refusal>> {
        let headers = pairs(&self.response_headers, ": ");
        let parsed = parse_inspector(&json!({
            "answers": self.answers.trim(),
            "perEvent": !self.per_event.is_empty(),
            "delayInMilliseconds": number(&self.delay_in_milliseconds),
            "retryAfterInSeconds": number(&self.retry_after_in_seconds),
            "responseHeaders": headers.as_ref().ok(),
            // Browsers end lines as HTTP does.
            "responseBody": self.response_body.replace("\r\n", "\n"),
        }));
        let unread = headers
            .err()
            .map(|problem| Refusal::of("responseHeaders", problem));
        let parsed = parsed.map_err(|invalid| of_fields(&invalid));
        all_of(unread.into_iter().collect(), parsed)
    }
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
            assert_eq!(InspectorForm::of(&defined).read(), Ok(defined));
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
            let form = Filled::<InspectorForm>::sent(&form);
            let refusals = form.values.read().expect_err(text);
            assert!(
                refusals[0].closeness(field) > 1,
                "{field} {text}: {refusals:?}"
            );
        }
    }
}
