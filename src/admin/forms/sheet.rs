//! Pages that are typed forms for a subject: they are opened, submitted, and shown again with their errors.

use std::fmt::Display;
use std::sync::Arc;

use askama::Template;
use axum::response::Response;
use axum::routing::{MethodRouter, get};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::admin::action::{Call, Subject};
use crate::admin::bare::draw_with;
use crate::admin::error::PageResult;
use crate::admin::forms::filled::FilledForm;
use crate::admin::forms::form::{Form, FormError};
use crate::admin::frame::PageFrame;
use crate::admin::paths;
use crate::admin::site::Site;
use crate::admin::widgets::print::sentence;
use crate::admin::widgets::{filters, print};

/// The fields of a form, its title, which the name of the subject follows, and the list that the form leads back to if
/// the subject does not exist yet.
pub(crate) type Head = (SheetFields, &'static str, &'static str);

pub(crate) enum SheetFields {
    Topic,
    NamespaceTopic,
    Events,
    SasToken,
    Namespace,
    Queue,
    ServiceBusTopic,
    Rule,
    Message,
    Signing,
    Inspector,
    AlertRule,
    AlertChannel,
    User,
    Token,
    AccessRule,
    Backup,
}

/// A typed form that is filled in for the subject `S`, with the action that it submits.
pub(crate) trait Sheet<S: Subject>:
    Serialize + DeserializeOwned + Default + Send + Sync
{
    const HEAD: Head;

    fn begin(_: &Call<S>) -> PageResult<Self> {
        Ok(Self::default())
    }

    fn title(call: &Call<S>) -> String {
        match Self::HEAD {
            (_, title, "") => format!("{title} {}", call.of.name()),
            (_, title, _) => title.to_owned(),
        }
    }

    /// Returns a further remark about the subject for its page.
    fn remark(_: &Call<S>) -> String {
        String::new()
    }

    fn save(&self, call: &Call<S>) -> impl Future<Output = PageResult> + Send;
}

/// A page that consists of one form. The template `templates/pages/sheet.html` has the words and fields of each form.
/// All forms share one type, since the drawing code takes tens of kilobytes of the program.
#[derive(Template)]
#[template(path = "pages/sheet.html")]
struct SheetPage {
    frame: PageFrame,
    form: FilledForm<()>,
    of: SheetFields,
    /// Is true if the form creates an object, and false if it changes an existing one.
    is_new: bool,
    back: String,
    remark: String,
}

pub(crate) fn sheet<F: Sheet<S> + 'static, S: Subject>() -> MethodRouter<Arc<Site>> {
    let open = |call: Call<S>| async move {
        let form = FilledForm::with(F::begin(&call)?);
        PageResult::Ok(draw_sheet(&call, form))
    };
    get(open).post(send::<F, S>)
}

/// Handles a submitted form: performs its action, or shows the form again with its errors.
pub(crate) async fn send<F: Sheet<S>, S: Subject>(call: Call<S>) -> PageResult {
    let form = FilledForm::<F>::sent(&call.form);
    match form.values.save(&call).await {
        Ok(answer) => Ok(answer),
        Err(error) => Ok(draw_sheet(&call, form.with_faults(error.in_form()?))),
    }
}

pub(crate) fn draw_sheet<F: Sheet<S>, S: Subject>(call: &Call<S>, form: FilledForm<F>) -> Response {
    let (of, _, list) = F::HEAD;
    let back = match list {
        "" => call.of.page(),
        list => list.to_owned(),
    };
    let sheet = SheetPage {
        frame: PageFrame::new(&call.visitor, F::title(call)),
        is_new: paths::last_part(&call.visitor.path).starts_with("new-"),
        remark: F::remark(call),
        form: form.drawn(),
        of,
        back,
    };
    draw_with(sheet.form.status(), &sheet)
}

/// Returns the name and the definition of a new object from its form, or all errors of both.
pub(crate) fn named<N: Display, E: Display, D>(
    form: &Form,
    noun: &str,
    parse: impl FnOnce(&str) -> Result<N, E>,
    is_taken: impl FnOnce(&N) -> bool,
    definition: Result<D, Vec<FormError>>,
) -> Result<(N, D), Vec<FormError>> {
    let problem = match parse(form.text("name")) {
        // The message leaves out the name, since the field shows it.
        Err(error) => sentence(error.to_string().rsplit(": ").next().unwrap_or_default()),
        Ok(name) if is_taken(&name) => format!("There is {noun} {name} already."),
        Ok(name) => return definition.map(|definition| (name, definition)),
    };
    let others = definition.err().unwrap_or_default();
    Err([vec![FormError::of("name", problem)], others].concat())
}
