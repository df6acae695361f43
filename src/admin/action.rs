//! The input of pages and buttons, and the actions of buttons: one function for each action. The row of the action in
//! the registry has its address, the role that may send it, its label and the question that comes before it.

use std::collections::HashMap;
use std::future::ready;
use std::ops::Deref;
use std::sync::Arc;

use askama::Template;
use axum::extract::{FromRequest, FromRequestParts, Path, Request};
use axum::response::Response;
use futures_util::future::BoxFuture;

use crate::admin::bare::draw;
use crate::admin::error::{PageError, PageResult};
use crate::admin::forms::form::Form;
use crate::admin::frame::PageFrame;
use crate::admin::paths;
use crate::admin::reader::PageReader;
use crate::admin::security::csrf;
use crate::admin::security::session::Visitor;
use crate::admin::site::{Site, existing};
use crate::admin::widgets::print::sentence;
use crate::admin::widgets::{Flash, Icon, part};
use crate::model::audit::Caller;

/// The field that names the page to come back to.
const BACK: &str = "back";

pub(crate) type Names = HashMap<String, String>;

pub(crate) fn name_of<'a>(names: &'a Names, name: &str) -> &'a str {
    names.get(name).map_or("", String::as_str)
}

pub(crate) trait Subject: Send + Sync + Sized + 'static {
    fn find(site: &Site, names: &Names) -> impl Future<Output = PageResult<Self>> + Send;

    fn page(&self) -> String;

    /// Returns the name of the subject in titles and messages.
    fn name(&self) -> String {
        paths::last_part(&self.address())
    }

    /// Returns the path below which its actions are.
    fn address(&self) -> String {
        self.page()
    }

    /// The button of the action that stands at `key` below.
    fn button(&self, key: &str) -> ActionButton {
        ActionButton {
            path: format!("{}/{key}", self.address()),
            class: "quiet",
            ..ActionButton::default()
        }
    }
}

impl Subject for () {
    async fn find(_: &Site, _: &Names) -> PageResult<Self> {
        Ok(())
    }

    fn page(&self) -> String {
        "/admin".to_owned()
    }
}

/// The input of a page or an action: `show(call: Call<Topic>)`, or `list(call: Call)` where the address names nothing.
/// A form must have the token of the visitor's session, or there is no call.
#[derive(Clone)]
pub(crate) struct Call<S = ()> {
    pub(crate) site: Arc<Site>,
    pub(crate) visitor: Visitor,
    pub(crate) of: S,
    /// The form that was sent; empty for a page that is only read.
    pub(crate) form: Form,
    pub(crate) names: Names,
}

impl<S> Call<S> {
    pub(crate) fn about<T>(self, of: T) -> Call<T> {
        Call {
            site: self.site,
            visitor: self.visitor,
            of,
            form: self.form,
            names: self.names,
        }
    }

    pub(crate) fn by(&self) -> &Caller {
        &self.visitor.caller
    }
}

impl<S> Deref for Call<S> {
    type Target = Site;

    fn deref(&self) -> &Site {
        &self.site
    }
}

/// The subject is looked up after the token has been checked, so only forms of this session learn whether it exists.
impl<S: Subject> FromRequest<Arc<Site>> for Call<S> {
    type Rejection = PageError;

    async fn from_request(request: Request, site: &Arc<Site>) -> PageResult<Self> {
        let call = Call::received(request, site).await?;
        let of = S::find(site, &call.names).await?;
        Ok(call.about(of))
    }
}

impl Call {
    /// Reads everything except the subject. It is not generic, so it is compiled once.
    async fn received(request: Request, site: &Arc<Site>) -> PageResult<Self> {
        let (mut parts, body) = request.into_parts();
        let names = Path::<Names>::from_request_parts(&mut parts, site).await;
        let Path(names) = names.map_err(|error| PageError::Unreadable(error.body_text()))?;
        let visitor = Visitor::from_request_parts(&mut parts, site).await?;
        let mut form = Form::default();
        if !parts.method.is_safe() {
            form = Form::from_request(Request::from_parts(parts, body), site).await?;
            csrf::check(&form, &visitor.csrf)?;
        }
        Ok(Self {
            of: (),
            site: Arc::clone(site),
            visitor,
            form,
            names,
        })
    }
}

#[derive(Default)]
pub(crate) struct Question {
    title: String,
    consequences: Vec<String>,
    dangerous: bool,
}

impl Question {
    pub(crate) fn new(title: impl Into<String>) -> Self {
        let title = title.into();
        Self {
            title,
            ..Self::default()
        }
    }

    pub(crate) fn would(mut self, consequence: impl Into<String>) -> Self {
        self.consequences.push(consequence.into());
        self
    }

    pub(crate) fn dangerously(mut self) -> Self {
        self.dangerous = true;
        self
    }

    pub(crate) fn draw(
        self,
        visitor: &Visitor,
        button: impl Into<String>,
        action: String,
        back: String,
    ) -> Response {
        draw(&Confirm {
            frame: PageFrame::new(visitor, self.title.as_str()),
            question: self,
            button: button.into(),
            back,
            action,
        })
    }
}

#[derive(Template)]
#[template(path = "confirm.html")]
struct Confirm {
    frame: PageFrame,
    question: Question,
    button: String,
    back: String,
    action: String,
}

/// A subject that can be deleted, after a question.
pub(crate) trait Deletable: Subject {
    const NOUN: &'static str;
    /// The consequence of the deletion, if it is the same for all subjects of this type; otherwise `losing` adds it.
    const LOSES: &'static str = "";

    fn noun(&self) -> &'static str {
        Self::NOUN
    }

    /// Adds the consequences of the deletion to the question.
    fn losing(
        _: &Call<Self>,
        question: Question,
    ) -> impl Future<Output = PageResult<Question>> + Send {
        ready(Ok(question.would(Self::LOSES)))
    }

    /// Deletes the subject. Returns `false` if there was none.
    fn delete(call: &Call<Self>) -> impl Future<Output = PageResult<bool>> + Send;
}

pub(crate) async fn ask_to_delete<S: Deletable>(call: Call<S>) -> PageResult<Question> {
    let title = format!("Delete {} {}?", call.of.noun(), call.of.name());
    S::losing(&call, Question::new(title).dangerously()).await
}

/// Deletes the subject, and redirects to the page above it.
pub(crate) async fn delete<S: Deletable>(call: Call<S>) -> PageResult<Flash> {
    let found = S::delete(&call).await?.then_some(());
    let (noun, name) = (call.of.noun(), call.of.name());
    existing(found, noun, &name)?;
    let (map, role) = (&call.visitor.map, call.visitor.role);
    let above = map.above(&call.of.address(), role);
    let said = sentence(&format!("{noun} {name} has been deleted"));
    Ok(Flash::done(said).leading_to(above.unwrap_or_else(|| call.of.page())))
}

/// The function that handles a call, or that asks before. It is boxed, so that the code around it is compiled once for
/// each type of subject.
pub(crate) type Step<S, T> =
    Arc<dyn Fn(Call<S>) -> BoxFuture<'static, PageResult<T>> + Send + Sync>;

pub(crate) async fn ask<S: Subject>(
    call: Call<S>,
    label: &'static str,
    question: Step<S, Question>,
) -> PageResult {
    let (visitor, back) = (call.visitor.clone(), call.of.page());
    let question = question(call).await?;
    Ok(question.draw(&visitor, label, visitor.path.clone(), back))
}

/// Runs the action, and redirects to the page that the form was sent from, or to the page that the action names, or to
/// that of the subject.
pub(crate) async fn carry_out<S: Subject>(call: Call<S>, run: Step<S, Flash>) -> PageResult {
    let (visitor, page) = (call.visitor.clone(), call.of.page());
    let back = Some(call.form.raw(BACK).to_owned()).filter(|back| paths::is_page(back));
    let said = run(call).await?;
    let leads_to = back.or(said.leads_to.clone()).unwrap_or(page);
    visitor.leave(said, &leads_to).await
}

/// A button of an action: a form of its own, or a link to its question; nothing for whoever may not press it.
#[derive(Clone, Debug, Default, Template)]
#[template(path = "widgets/action.html")]
pub(crate) struct ActionButton {
    path: String,
    about: String,
    /// Where to come back to; empty for where the action itself leads.
    back: String,
    class: &'static str,
    icon: Option<Icon>,
}

part!(ActionButton);

impl ActionButton {
    /// Returns the label of the button, whether the action asks a question first, and the CSRF token that it sends.
    /// Returns `None` if the user may not press it.
    fn offer(&self) -> Option<(&'static str, bool, String)> {
        let user = PageReader::current().user.clone()?;
        let page = user.map.page(&self.path)?;
        let button = page.button.filter(|_| user.role >= page.access.changes)?;
        Some((button.label, button.asks, user.csrf))
    }

    pub(crate) fn class(self, class: &'static str) -> Self {
        Self { class, ..self }
    }

    pub(crate) fn icon(self, icon: &'static str) -> Self {
        let icon = Some(Icon(icon));
        Self { icon, ..self }
    }

    pub(crate) fn coming_back_to(self, back: String) -> Self {
        Self { back, ..self }
    }

    pub(crate) fn about(self, about: impl Into<String>) -> Self {
        let about = about.into();
        Self { about, ..self }
    }
}
