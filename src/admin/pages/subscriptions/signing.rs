//! The signing secrets of an event subscription: a new one, with time for the older ones, or none any more.

use serde_json::json;

use crate::admin::action::{Action, Done, Of, Question, Sent, Subject as _};
use crate::admin::forms::field::{Field, Section};
use crate::admin::forms::form_page::FormPage;
use crate::admin::page::*;
use crate::admin::pages::subscriptions::Subscription;
use crate::admin::pages::subscriptions::definition::{SIGN, SIGNING_SECRET};
use crate::admin::paths::subscription_page;
use crate::broker::ManageError;
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
pub(crate) async fn draft(visitor: Visitor, Of(of): Of<Subscription>) -> PageResult {
    let form = Form::of([(GRACE, "P1D".to_owned())]);
    Ok(draw_form(&visitor, signer(&of)?, &form, None))
}

/// Signs with a new secret from now on.
pub(crate) async fn rotate(
    State(site): State<Arc<Site>>,
    Sent { of, visitor, form }: Sent<Subscription>,
) -> PageResult {
    let of = signer(&of)?;
    let refusal = match rotation(&form) {
        Ok(rotation) => match sign(&site, &visitor, of, rotation).await? {
            Ok(secret) => return show_or_tell(&visitor, of, &form, secret).await,
            Err(refusal) => refusal,
        },
        Err(refusal) => refusal,
    };
    Ok(draw_form(&visitor, of, &form, Some(refusal)))
}

fn rotation(form: &Form) -> Result<Rotation, Refusal> {
    let body = json!({ SECRET: form.filled(SECRET), GRACE: form.filled(GRACE) });
    parse_rotation(&body).map_err(Refusal::from)
}

async fn sign(
    site: &Site,
    visitor: &Visitor,
    of: &Subscription,
    rotation: Rotation,
) -> Result<Result<SigningSecret, Refusal>, PageError> {
    let (of, name) = of.names();
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
    of: &Subscription,
    form: &Form,
    secret: SigningSecret,
) -> PageResult {
    if form.filled(SECRET).is_none() {
        return Ok(show_once(visitor, &of.topic, &of.subscription, &secret));
    }
    let (_, name) = of.names();
    let message = format!("{name} signs with the secret {} now.", secret.fingerprint());
    visitor.leave(Flash::done(message), &of.page()).await
}

/// Forgets all secrets, after a question.
pub(crate) static STOP: Action<Subscription> = Action {
    key: "signing/stop",
    label: "Stop signing",
    role: Role::Admin,
    ask: Some(|call| {
        Box::pin(async move {
            let name = &signer(call.of)?.subscription.name;
            Ok(Question {
                title: format!("Stop signing for {name}?"),
                consequences: vec![
                    "Requests carry no signature from now on; a receiver that checks it rejects them."
                        .to_owned(),
                    "The secrets are forgotten; to sign again takes a new one.".to_owned(),
                ],
                dangerous: true,
            })
        })
    }),
    run: |call| {
        Box::pin(async move {
            let (of, name) = signer(call.of)?.names();
            let by = &call.visitor.caller;
            let broker = &call.site.broker;
            broker.remove_signing_secrets(by, of, name).await?;
            Ok(Done::well(format!("{name} signs no more.")))
        })
    },
};

/// The same, if it has requests to sign.
fn signer(of: &Subscription) -> Result<&Subscription, PageError> {
    match of.subscription.definition.destination.signing() {
        Some(_) => Ok(of),
        None => Err(ManageError::NothingSent(of.subscription.name.clone()).into()),
    }
}

fn draw_form(
    visitor: &Visitor,
    of: &Subscription,
    form: &Form,
    refusal: Option<Refusal>,
) -> Response {
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
        back: of.page(),
    };
    let title = format!("Sign for {}", of.subscription.name);
    page.draw(Frame::new(visitor, title), refusal)
}
