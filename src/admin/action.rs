//! What pages and buttons work with, and what buttons do: one function each, of which a row of the registry tells
//! the address, who may send it, its label and the question that comes before it.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::Arc;

use askama::Template;
use axum::extract::{FromRequest, FromRequestParts, Path, Request};
use axum::response::Response;

use crate::admin::bare::draw;
use crate::admin::error::{PageError, PageResult};
use crate::admin::forms::form::Form;
use crate::admin::frame::Frame;
use crate::admin::reader::Reader;
use crate::admin::security::csrf::Submitted;
use crate::admin::security::gate;
use crate::admin::security::session::Visitor;
use crate::admin::site::Site;
use crate::admin::widgets::{Flash, Icon, part};
use crate::model::audit::Caller;

/// The field that names the page to come back to.
const BACK: &str = "back";

/// What an address names: `topic`, `orders`.
pub(crate) type Names = HashMap<String, String>;

/// The part of an address that has that name.
pub(crate) fn name_of<'a>(names: &'a Names, name: &str) -> &'a str {
    names.get(name).map_or("", String::as_str)
}

/// Something with a page, of which an address tells the names.
pub(crate) trait Subject: Send + Sync + Sized + 'static {
    fn find(site: &Site, names: &Names) -> impl Future<Output = PageResult<Self>> + Send;

    fn page(&self) -> String;

    /// Where its actions stand below.
    fn address(&self) -> String {
        self.page()
    }

    /// The button of the action that stands at `key` below; nothing for whoever may not press it.
    fn button(&self, key: &str) -> ActionButton {
        ActionButton::to(format!("{}/{key}", self.address()))
    }
}

/// What belongs to no subject.
impl Subject for () {
    async fn find(_: &Site, _: &Names) -> PageResult<Self> {
        Ok(())
    }

    fn page(&self) -> String {
        "/admin".to_owned()
    }
}

/// What a page or an action works with: `show(call: Call<Topic>)`, and `list(call: Call)` where the address names
/// nothing. A form has the token of the visitor's session, or there is no call.
#[derive(Clone)]
pub(crate) struct Call<S = ()> {
    pub(crate) site: Arc<Site>,
    pub(crate) visitor: Visitor,
    pub(crate) of: S,
    /// What was sent; nothing where a page is only read.
    pub(crate) form: Form,
    pub(crate) names: Names,
}

impl<S> Call<S> {
    /// The same for another subject.
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

/// Whether there is such a thing is said to whoever sent a form of this session.
impl<S: Subject> FromRequest<Arc<Site>> for Call<S> {
    type Rejection = PageError;

    async fn from_request(request: Request, site: &Arc<Site>) -> PageResult<Self> {
        let (mut parts, body) = request.into_parts();
        let names = Path::<Names>::from_request_parts(&mut parts, site).await;
        let Path(names) = names.map_err(|error| PageError::Unreadable(error.body_text()))?;
        let (visitor, form) = if parts.method.is_safe() {
            let visitor = Visitor::from_request_parts(&mut parts, site).await?;
            (visitor, Form::default())
        } else {
            let request = Request::from_parts(parts, body);
            let sent = Submitted::from_request(request, site).await?;
            (sent.visitor, sent.form)
        };
        Ok(Self {
            of: S::find(site, &names).await?,
            site: Arc::clone(site),
            visitor,
            form,
            names,
        })
    }
}

/// What a yes would mean.
#[derive(Default)]
pub(crate) struct Question {
    title: String,
    /// One sentence each.
    consequences: Vec<String>,
    /// Whether something would be lost.
    dangerous: bool,
}

impl Question {
    pub(crate) fn new(title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            ..Self::default()
        }
    }

    /// The same with another consequence, in a sentence.
    pub(crate) fn would(mut self, consequence: impl Into<String>) -> Self {
        self.consequences.push(consequence.into());
        self
    }

    /// The same where something would be lost.
    pub(crate) fn dangerously(mut self) -> Self {
        self.dangerous = true;
        self
    }

    /// As a page, from which a yes is posted to `action`, and a no leads to `back`.
    pub(crate) fn draw(
        self,
        visitor: &Visitor,
        button: &'static str,
        action: String,
        back: String,
    ) -> Response {
        draw(&Confirm {
            frame: Frame::new(visitor, self.title),
            consequences: self.consequences,
            dangerous: self.dangerous,
            button,
            back,
            action,
        })
    }
}

#[derive(Template)]
#[template(path = "confirm.html")]
struct Confirm {
    frame: Frame,
    consequences: Vec<String>,
    button: &'static str,
    dangerous: bool,
    back: String,
    action: String,
}

/// What the next page says.
pub(crate) struct Done {
    pub(crate) flash: Flash,
    /// `None` for the page of the subject.
    leads_to: Option<String>,
}

impl Done {
    /// It worked.
    pub(crate) fn well(text: impl Into<String>) -> Self {
        Flash::done(text).into()
    }

    /// It did not work, for a reason that is no fault of the address.
    pub(crate) fn failed(text: impl Into<String>) -> Self {
        Flash::failed(text).into()
    }

    /// The same where the subject has no page any more.
    pub(crate) fn leading_to(self, page: impl Into<String>) -> Self {
        let leads_to = Some(page.into());
        Self { leads_to, ..self }
    }
}

impl From<Flash> for Done {
    fn from(flash: Flash) -> Self {
        let leads_to = None;
        Self { flash, leads_to }
    }
}

/// Asks before an action is done.
pub(crate) async fn ask<S: Subject>(
    call: Call<S>,
    label: &'static str,
    question: impl AsyncFnOnce(Call<S>) -> PageResult<Question>,
) -> PageResult {
    let (visitor, back) = (call.visitor.clone(), call.of.page());
    let question = question(call).await?;
    Ok(question.draw(&visitor, label, visitor.path.clone(), back))
}

/// Does it, and leads to the page that it was sent from, or to that of its subject.
pub(crate) async fn carry_out<S: Subject>(
    call: Call<S>,
    run: impl AsyncFnOnce(Call<S>) -> PageResult<Done>,
) -> PageResult {
    let (visitor, page) = (call.visitor.clone(), call.of.page());
    let back = Some(call.form.raw(BACK)).filter(|back| gate::is_page(back));
    let back = back.map(str::to_owned);
    let done = run(call).await?;
    let leads_to = back.or(done.leads_to).unwrap_or(page);
    visitor.leave(done.flash, &leads_to).await
}

/// A button of an action: a form of its own, or a link to its question.
#[derive(Clone, Debug, Template)]
#[template(path = "widgets/action.html")]
pub(crate) struct ActionButton {
    is_offered: bool,
    path: String,
    csrf: Option<String>,
    label: &'static str,
    /// Told to whoever cannot see what the button stands beside; empty where it is plain.
    about: String,
    /// Where to come back to; empty for where the action itself leads.
    back: String,
    asks: bool,
    class: &'static str,
    icon: Option<Icon>,
}

part!(ActionButton);

impl ActionButton {
    fn to(path: String) -> Self {
        let reader = Reader::current();
        let user = reader.user.as_ref();
        let button = user.and_then(|user| user.map.page(&path)?.button);
        Self {
            is_offered: reader.may_send(&path),
            csrf: user.map(|user| user.csrf.clone()),
            path,
            label: button.map_or("", |button| button.label),
            about: String::new(),
            back: String::new(),
            asks: button.is_some_and(|button| button.asks),
            class: "quiet",
            icon: None,
        }
    }

    /// The same in the look of these classes of the stylesheet.
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
