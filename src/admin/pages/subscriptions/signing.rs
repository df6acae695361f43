//! The signing secrets of an event subscription: a new one, with time for the older ones, or none any more.

use std::sync::Arc;

use askama::Template;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Redirect, Response};
use serde_json::json;

use crate::admin::action::Confirm;
use crate::admin::bare::draw;
use crate::admin::error::{PageError, PageResult};
use crate::admin::forms::field::{Field, Section};
use crate::admin::forms::form::{Form, Refusal};
use crate::admin::forms::form_page::FormPage;
use crate::admin::frame::Frame;
use crate::admin::pages::subscriptions::definition::{SIGN, SIGNING_SECRET};
use crate::admin::paths::subscription_page;
use crate::admin::security::csrf::Submitted;
use crate::admin::security::session::Visitor;
use crate::admin::site::Site;
use crate::admin::widgets::Flash;
use crate::admin::widgets::print::sentence;
use crate::broker::ManageError;
use crate::model::registry::TopicEntry;
use crate::model::signing::SigningSecret;
use crate::model::subscription::EventSubscription;
use crate::wire::resource::{Rotation, parse_rotation};

const SECRET: &str = "secret";
const GRACE: &str = "gracePeriod";

/// How long older secrets may go on signing.
const GRACES: [(&str, &str); 5] = [
    (
        "PT0S",
        "Not at all: every receiver knows the new one already",
    ),
    ("PT1H", "For an hour"),
    ("P1D", "For a day"),
    ("P7D", "For 7 days"),
    ("P30D", "For 30 days"),
];

/// A secret that is shown this once.
#[derive(Template)]
#[template(path = "pages/signing_secret.html")]
struct SigningSecretPage {
    frame: Frame,
    name: String,
    path: String,
    secret: String,
    fingerprint: String,
}

/// Puts a secret into the form of a new subscription where it asks for one.
pub(crate) fn make_first(site: &Site, form: &mut Form) -> Option<SigningSecret> {
    if !form.is_on(SIGN) || form.filled(SIGNING_SECRET).is_some() {
        return None;
    }
    let secret = SigningSecret::generate(site.broker.entropy());
    form.set(SIGNING_SECRET, secret.reveal());
    Some(secret)
}

/// The page with a secret that the subscription signs with from now on.
pub(crate) fn show_once(
    visitor: &Visitor,
    topic: &TopicEntry,
    subscription: &EventSubscription,
    secret: &SigningSecret,
) -> Response {
    let (topic, name) = (topic.topic.name.as_str(), subscription.name.as_str());
    draw(&SigningSecretPage {
        frame: Frame::new(visitor, format!("Signing secret of {name}")),
        path: subscription_page(topic, name),
        name: name.to_owned(),
        secret: secret.reveal().to_owned(),
        fingerprint: secret.fingerprint(),
    })
}

/// The form for the next secret.
pub(crate) async fn draft(
    visitor: Visitor,
    State(site): State<Arc<Site>>,
    Path((topic, name)): Path<(String, String)>,
) -> PageResult {
    let (topic, subscription) = signer(&site, &topic, &name)?;
    let form = Form::of([(GRACE, "P1D".to_owned())]);
    Ok(draw_form(&visitor, &topic, &subscription, &form, None))
}

/// Signs with a new secret from now on.
pub(crate) async fn rotate(
    State(site): State<Arc<Site>>,
    Path((topic, name)): Path<(String, String)>,
    Submitted { visitor, form }: Submitted,
) -> PageResult {
    let (topic, subscription) = signer(&site, &topic, &name)?;
    let refusal = match rotation(&form) {
        Ok(rotation) => match sign(&site, &visitor, (&topic, &subscription), rotation).await? {
            Ok(secret) => {
                return show_or_tell(&visitor, &topic, &subscription, &form, secret).await;
            }
            Err(refusal) => refusal,
        },
        Err(refusal) => refusal,
    };
    Ok(draw_form(
        &visitor,
        &topic,
        &subscription,
        &form,
        Some(refusal),
    ))
}

fn rotation(form: &Form) -> Result<Rotation, Refusal> {
    let body = json!({ SECRET: form.filled(SECRET), GRACE: form.filled(GRACE) });
    parse_rotation(&body).map_err(Refusal::from)
}

async fn sign(
    site: &Site,
    visitor: &Visitor,
    (topic, subscription): (&TopicEntry, &EventSubscription),
    rotation: Rotation,
) -> Result<Result<SigningSecret, Refusal>, PageError> {
    let (of, name) = (&topic.topic.name, &subscription.name);
    match site
        .broker
        .rotate_signing_secret(&visitor.caller, of, name, rotation)
        .await
    {
        Ok((secret, _)) => Ok(Ok(secret)),
        Err(error @ ManageError::TooManySecrets(_)) => {
            Ok(Err(Refusal::of(GRACE, sentence(&error.to_string()))))
        }
        Err(error) => Err(error.into()),
    }
}

/// Whoever has brought the secret knows it.
async fn show_or_tell(
    visitor: &Visitor,
    topic: &TopicEntry,
    subscription: &EventSubscription,
    form: &Form,
    secret: SigningSecret,
) -> PageResult {
    let (of, name) = (&topic.topic.name, &subscription.name);
    if form.filled(SECRET).is_none() {
        return Ok(show_once(visitor, topic, subscription, &secret));
    }
    let message = format!("{name} signs with the secret {} now.", secret.fingerprint());
    visitor.flash(Flash::done(message)).await?;
    Ok(Redirect::to(&subscription_page(of.as_str(), name.as_str())).into_response())
}

/// Asks before nothing is signed any more.
pub(crate) async fn ask_to_stop(
    visitor: Visitor,
    State(site): State<Arc<Site>>,
    Path((topic, name)): Path<(String, String)>,
) -> PageResult {
    let (topic, subscription) = signer(&site, &topic, &name)?;
    let name = &subscription.name;
    Ok(draw(&Confirm {
        frame: Frame::new(&visitor, format!("Stop signing for {name}?")),
        consequences: vec![
            "Requests carry no signature from now on; a receiver that checks it rejects them."
                .to_owned(),
            "The secrets are forgotten; to sign again takes a new one.".to_owned(),
        ],
        button: "Stop signing",
        dangerous: true,
        back: subscription_page(topic.topic.name.as_str(), name.as_str()),
        action: visitor.path.clone(),
    }))
}

/// Forgets all secrets.
pub(crate) async fn stop(
    State(site): State<Arc<Site>>,
    Path((topic, name)): Path<(String, String)>,
    Submitted { visitor, .. }: Submitted,
) -> PageResult {
    let (topic, subscription) = signer(&site, &topic, &name)?;
    let (of, name) = (&topic.topic.name, &subscription.name);
    let by = &visitor.caller;
    site.broker.remove_signing_secrets(by, of, name).await?;
    visitor
        .flash(Flash::done(format!("{name} signs no more.")))
        .await?;
    Ok(Redirect::to(&subscription_page(of.as_str(), name.as_str())).into_response())
}

/// What has requests to sign.
fn signer(
    site: &Site,
    topic: &str,
    name: &str,
) -> Result<(Arc<TopicEntry>, Arc<EventSubscription>), PageError> {
    let (topic, subscription) = site.subscription(topic, name)?;
    match subscription.definition.destination.signing() {
        Some(_) => Ok((topic, subscription)),
        None => Err(ManageError::NothingSent(subscription.name.clone()).into()),
    }
}

fn draw_form(
    visitor: &Visitor,
    topic: &TopicEntry,
    subscription: &EventSubscription,
    form: &Form,
    refusal: Option<Refusal>,
) -> Response {
    let (of, name) = (topic.topic.name.as_str(), subscription.name.as_str());
    let fields = vec![
        Field::secret(SECRET, "Secret of your own", form).hint(
            "whsec_ and 24 to 64 bytes in base64. Empty makes one here, which is shown once.",
        ),
        Field::choice(GRACE, "Older secrets go on signing", &GRACES, form)
            .hint("Requests carry a signature with each, so that receivers can change over."),
    ];
    let page = FormPage {
        intro: "Every request to the webhook is signed as Standard Webhooks says, so that the receiver \
                can tell it from a forged one."
            .to_owned(),
        sections: vec![Section {
            title: "New signing secret",
            fields,
        }],
        button: "Sign with it",
        back: subscription_page(of, name),
    };
    page.draw(Frame::new(visitor, format!("Sign for {name}")), refusal)
}
