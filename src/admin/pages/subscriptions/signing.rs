//! The signing secrets of an event subscription: a new one, with time for the older ones, or none any more.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::admin::bare::draw_with;
use crate::admin::forms::filled::Filled;
use crate::admin::forms::form::refusals;
use crate::admin::page::*;
use crate::admin::pages::subscriptions::Subscription;
use crate::admin::pages::subscriptions::definition::{SIGN, SIGNING_SECRET};
use crate::admin::paths::subscription_page;
use crate::broker::ManageError;
use crate::model::limits::SIGNING_GRACE;
use crate::model::signing::SigningSecret;
use crate::model::subscription::EventSubscription;
use crate::wire::duration;
use crate::wire::resource::parse_rotation;

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

/// A new secret, and for how long the older ones go on.
#[derive(Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct NewSecret {
    secret: String,
    grace_period: String,
}

#[derive(Template)]
#[template(path = "pages/signing.html")]
struct SigningPage {
    frame: Frame,
    form: Filled<NewSecret>,
    back: String,
}

/// The form for the next secret.
pub(crate) async fn draft(Call { visitor, of, .. }: Call<Subscription>) -> PageResult {
    let grace_period = duration::format(SIGNING_GRACE);
    let form = Filled::with(NewSecret {
        grace_period,
        ..NewSecret::default()
    });
    draw_form(&visitor, &of, form)
}

fn draw_form(visitor: &Visitor, of: &Subscription, form: Filled<NewSecret>) -> PageResult {
    let name = &signer(of)?.subscription.name;
    Ok(draw_with(
        form.status(),
        &SigningPage {
            frame: Frame::new(visitor, format!("Sign for {name}")),
            back: of.page(),
            form,
        },
    ))
}

/// Signs with a new secret from now on.
pub(crate) async fn rotate(
    State(site): State<Arc<Site>>,
    Call {
        of, visitor, form, ..
    }: Call<Subscription>,
) -> PageResult {
    let form = Filled::<NewSecret>::sent(&form);
    let typed: HashMap<_, _> = form.pairs().into_iter().collect();
    let rotation = match parse_rotation(&json!(typed)) {
        Ok(rotation) => rotation,
        Err(invalid) => return draw_form(&visitor, &of, form.with_faults(refusals(&invalid))),
    };
    let is_own = rotation.secret.is_some();
    let (topic, name) = signer(&of)?.names();
    let (by, broker) = (&visitor.caller, &site.broker);
    match broker
        .rotate_signing_secret(by, topic, name, rotation)
        .await
    {
        // Whoever has brought the secret knows it.
        Ok((secret, _)) if is_own => {
            let message = format!("{name} signs with the secret {} now.", secret.fingerprint());
            visitor.leave(Flash::done(message), &of.page()).await
        }
        Ok((secret, _)) => Ok(show_once(&visitor, &of.topic, &of.subscription, &secret)),
        Err(error @ ManageError::TooManySecrets(_)) => {
            let fault = Refusal::of("gracePeriod", sentence(&error.to_string()));
            draw_form(&visitor, &of, form.with_faults([fault]))
        }
        Err(error) => Err(error.into()),
    }
}

pub(crate) async fn ask_to_stop(call: Call<Subscription>) -> PageResult<Question> {
    let name = &signer(&call.of)?.subscription.name;
    Ok(Question::new(format!("Stop signing for {name}?"))
        .would("Requests carry no signature from now on; a receiver that checks it rejects them.")
        .would("The secrets are forgotten; to sign again takes a new one.")
        .dangerously())
}

/// Forgets all secrets.
pub(crate) async fn stop(call: Call<Subscription>) -> PageResult<Done> {
    let (topic, name) = signer(&call.of)?.names();
    call.broker
        .remove_signing_secrets(call.by(), topic, name)
        .await?;
    Ok(Done::well(format!("{name} signs no more.")))
}

/// The same, if it has requests to sign.
fn signer(of: &Subscription) -> Result<&Subscription, PageError> {
    match of.subscription.definition.destination.signing() {
        Some(_) => Ok(of),
        None => Err(ManageError::NothingSent(of.subscription.name.clone()).into()),
    }
}
