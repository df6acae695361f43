//! What buttons do: each is one value of [`Action`], from which come its button, its question, the address
//! that it is sent to, and what the next page says.

use std::collections::HashMap;
use std::sync::Arc;

use askama::Template;
use axum::extract::{FromRequest, FromRequestParts, Path, Request, State};
use axum::response::Response;
use axum::routing::{MethodRouter, get, post};
use futures_util::future::BoxFuture;
use http::request::Parts;

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
use crate::store::accounts::Role;

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
    fn find(site: &Site, names: &Names) -> impl Future<Output = Result<Self, PageError>> + Send;

    fn page(&self) -> String;

    /// Where its actions stand below.
    fn address(&self) -> String {
        self.page()
    }
}

/// The subject of a request: `Of(subscription): Of<Subscription>`.
pub(crate) struct Of<S>(pub(crate) S);

impl<S: Subject> FromRequestParts<Arc<Site>> for Of<S> {
    type Rejection = PageError;

    async fn from_request_parts(
        parts: &mut Parts,
        site: &Arc<Site>,
    ) -> Result<Self, Self::Rejection> {
        let names = names(parts, site).await?;
        S::find(site, &names).await.map(Self)
    }
}

/// A form that was sent to its subject. Whether there is such a thing is said to whoever sent a form of this
/// session.
pub(crate) struct Sent<S> {
    pub(crate) of: S,
    pub(crate) visitor: Visitor,
    pub(crate) form: Form,
}

impl<S: Subject> FromRequest<Arc<Site>> for Sent<S> {
    type Rejection = PageError;

    async fn from_request(request: Request, site: &Arc<Site>) -> Result<Self, Self::Rejection> {
        let (mut parts, body) = request.into_parts();
        let names = names(&mut parts, site).await?;
        let request = Request::from_parts(parts, body);
        let Submitted { visitor, form } = Submitted::from_request(request, site).await?;
        let of = S::find(site, &names).await?;
        Ok(Self { of, visitor, form })
    }
}

async fn names(parts: &mut Parts, site: &Arc<Site>) -> Result<Names, PageError> {
    let names = Path::<Names>::from_request_parts(parts, site).await;
    let Path(names) = names.map_err(|error| PageError::Unreadable(error.body_text()))?;
    Ok(names)
}

/// What a button does to its subject.
pub(crate) struct Action<S> {
    /// The end of its address, behind that of the subject's page.
    pub(crate) key: &'static str,
    /// On the button.
    pub(crate) label: &'static str,
    pub(crate) role: Role,
    /// Asks before it is done; `None` does it at once.
    pub(crate) ask: Option<Step<S, Question>>,
    pub(crate) run: Step<S, Done>,
}

type Step<S, T> = for<'a> fn(&'a Call<'a, S>) -> BoxFuture<'a, Result<T, PageError>>;

/// What an action works with.
pub(crate) struct Call<'a, S> {
    pub(crate) site: &'a Site,
    pub(crate) visitor: &'a Visitor,
    pub(crate) of: &'a S,
    /// What was sent; nothing yet where it is asked first.
    pub(crate) form: &'a Form,
}

/// What a yes would mean.
pub(crate) struct Question {
    pub(crate) title: String,
    /// One sentence each.
    pub(crate) consequences: Vec<String>,
    /// Whether something would be lost.
    pub(crate) dangerous: bool,
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
        Self::with(Flash::done(text))
    }

    /// It did not work, for a reason that is no fault of the address.
    pub(crate) fn failed(text: impl Into<String>) -> Self {
        Self::with(Flash::failed(text))
    }

    fn with(flash: Flash) -> Self {
        let leads_to = None;
        Self { flash, leads_to }
    }

    /// The same where the subject has no page any more.
    pub(crate) fn leading_to(self, page: String) -> Self {
        let leads_to = Some(page);
        Self { leads_to, ..self }
    }
}

/// A question before something is done. A yes is posted to `action`.
#[derive(Template)]
#[template(path = "confirm.html")]
pub(crate) struct Confirm {
    pub(crate) frame: Frame,
    /// What would happen, one sentence each.
    pub(crate) consequences: Vec<String>,
    pub(crate) button: &'static str,
    /// Whether something would be lost.
    pub(crate) dangerous: bool,
    /// Where a no leads to.
    pub(crate) back: String,
    pub(crate) action: String,
}

impl<S: Subject> Action<S> {
    /// What serves its address.
    pub(crate) fn handler(&'static self) -> MethodRouter<Arc<Site>> {
        let run = post(
            move |State(site): State<Arc<Site>>, sent: Sent<S>| async move {
                self.carry_out(&site, &sent).await
            },
        );
        match self.ask {
            None => run,
            Some(ask) => run.merge(get(
                move |State(site): State<Arc<Site>>, Of(of): Of<S>, visitor: Visitor| async move {
                    self.put_question(ask, &site, &of, &visitor).await
                },
            )),
        }
    }

    async fn carry_out(&self, site: &Site, sent: &Sent<S>) -> PageResult {
        let Sent { of, visitor, form } = sent;
        let call = Call {
            site,
            visitor,
            of,
            form,
        };
        let done = (self.run)(&call).await?;
        let leads_to = match form.raw(BACK) {
            back if gate::is_page(back) => back.to_owned(),
            _ => done.leads_to.unwrap_or_else(|| of.page()),
        };
        visitor.leave(done.flash, &leads_to).await
    }

    async fn put_question(
        &self,
        ask: Step<S, Question>,
        site: &Site,
        of: &S,
        visitor: &Visitor,
    ) -> Result<Response, PageError> {
        let form = &Form::default();
        let call = Call {
            site,
            visitor,
            of,
            form,
        };
        let question = ask(&call).await?;
        Ok(draw(&Confirm {
            frame: Frame::new(visitor, question.title),
            consequences: question.consequences,
            button: self.label,
            dangerous: question.dangerous,
            back: of.page(),
            action: visitor.path.clone(),
        }))
    }

    /// Its button on a page of `subject`; nothing for whoever may not press it.
    pub(crate) fn button(&self, subject: &S) -> ActionButton {
        let path = format!("{}/{}", subject.address(), self.key);
        let reader = Reader::current();
        ActionButton {
            is_offered: reader.may_send(&path),
            csrf: reader.user.as_ref().map(|user| user.csrf.clone()),
            path,
            label: self.label,
            about: String::new(),
            back: String::new(),
            asks: self.ask.is_some(),
            class: "quiet",
            icon: None,
        }
    }
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
