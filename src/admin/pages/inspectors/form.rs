//! The form of an inspector.

use super::*;
use crate::wire::resource::parse_inspector;

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct InspectorForm(Form);

impl Sheet<()> for InspectorForm {
    const HEAD: Head = (Fields::Inspector, "New inspector", LIST);

    fn begin(_: &Call) -> PageResult<Self> {
        Ok(Self::of(&InspectorDefinition::default()))
    }

    async fn save(&self, call: &Call) -> PageResult {
        let known = call.views.inspectors().await?;
        let is_taken = |name: &InspectorName| known.iter().any(|each| each.name == *name);
        let parse = InspectorName::parse;
        let (name, definition) = named(&self.0, "an inspector", parse, is_taken, self.read())?;
        let next = "has been created. Deliver to its URL, or subscribe it below.";
        put(call, &name, definition, next).await
    }
}

impl Sheet<Inspector> for InspectorForm {
    const HEAD: Head = (Fields::Inspector, "Edit inspector", "");

    fn begin(call: &Call<Inspector>) -> PageResult<Self> {
        Ok(Self::of(&call.of.definition))
    }

    async fn save(&self, call: &Call<Inspector>) -> PageResult {
        let said = "has been changed. It begins with the first response.";
        put(call, &call.of.name, self.read()?, said).await
    }
}

async fn put<S>(
    call: &Call<S>,
    name: &InspectorName,
    definition: InspectorDefinition,
    said: &str,
) -> PageResult {
    let put = call.broker.put_inspector(call.by(), name, definition);
    put.await?;
    let said = Flash::done(format!("Inspector {name} {said}"));
    call.visitor.leave(said, &paths::inspector_page(name)).await
}

impl InspectorForm {
    fn of(definition: &InspectorDefinition) -> Self {
        Self(Shape::of::<InspectorDefinition>().form(&json!(definition)))
    }

    /// Returns the inspector that the form defines, or everything that is wrong with the form.
    fn read(&self) -> Result<InspectorDefinition, Vec<FormError>> {
        let blank = json!({ "answers": "" }); // which is rejected
        Shape::of::<InspectorDefinition>().define(&self.0, blank, parse_inspector)
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
            let mut form = Form::of([("answers", "200")]);
            form.set(field, text);
            let form = Filled::<InspectorForm>::sent(&form);
            let form_errors = form.values.read().expect_err(text);
            assert!(
                form_errors[0].fits(field),
                "{field} {text}: {form_errors:?}"
            );
        }
    }
}
