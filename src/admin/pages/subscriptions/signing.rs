//! The signing secrets of an event subscription: a new one, with time for the older ones, or none any more.

use super::*;
use crate::model::limits::SIGNING_GRACE;
use crate::wire::resource::parse_rotation;

/// Puts a secret into the form of a new subscription where it asks for one.
pub(crate) fn make_first(site: &Site, form: &mut Form) -> Option<SigningSecret> {
    let asks = form.is_on(SIGN) && form.filled(SIGNING_SECRET).is_none();
    let secret = asks.then(|| SigningSecret::generate(site.broker.entropy()))?;
    form.set(SIGNING_SECRET, secret.reveal());
    Some(secret)
}

/// The page with a secret that the subscription signs with from now on; it is shown this once.
pub(crate) fn show_once(
    visitor: &Visitor,
    of: &Subscription,
    secret: &SigningSecret,
) -> PageResult {
    let title = format!("Signing secret of {}", of.subscription.name);
    answer!("pages/signing_secret.html", visitor, title, {
        of: Subscription = of.clone(),
        secret: String = secret.reveal().to_owned(),
        fingerprint: String = secret.fingerprint(),
    })
}

/// A new secret, and for how long the older ones go on.
#[derive(Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct NewSecret {
    #[serde(skip_serializing_if = "String::is_empty")]
    secret: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    grace_period: String,
}

impl Sheet<Subscription> for NewSecret {
    const HEAD: Head = (Fields::Signing, "Sign requests to", "");

    fn begin(call: &Call<Subscription>) -> PageResult<Self> {
        signer(&call.of)?;
        Ok(Self {
            grace_period: duration::format(SIGNING_GRACE),
            ..Self::default()
        })
    }

    /// With how many secrets requests are signed now, if with any.
    fn remark(call: &Call<Subscription>) -> String {
        let signing = call.of.subscription.definition.destination.signing();
        let active = signing.map_or(0, |it| it.active(call.visitor.now).count());
        if active > 0 {
            active.to_string()
        } else {
            String::new()
        }
    }

    async fn save(&self, call: &Call<Subscription>) -> PageResult {
        let (topic, name) = signer(&call.of)?.names();
        let rotation = parse_rotation(&json!(self)).map_err(|invalid| form_errors(&invalid))?;
        let (by, is_own) = (call.by(), rotation.secret.is_some());
        let rotated = call.broker.rotate_signing_secret(by, topic, name, rotation);
        match rotated.await {
            // Whoever has brought the secret knows it.
            Ok((secret, _)) if is_own => {
                let said = format!("{name} signs with the secret {} now.", secret.fingerprint());
                call.visitor.leave(Flash::done(said), &call.of.page()).await
            }
            Ok((secret, _)) => show_once(&call.visitor, &call.of, &secret),
            Err(error @ ManageError::TooManySecrets(_)) => {
                Err(FormError::of("gracePeriod", sentence(&error.to_string())).into())
            }
            Err(error) => Err(error.into()),
        }
    }
}

pub(crate) async fn ask_to_stop_signing(call: Call<Subscription>) -> PageResult<Question> {
    let name = &signer(&call.of)?.subscription.name;
    Ok(Question::new(format!("Stop signing for {name}?"))
        .would("Requests carry no signature from now on; a receiver that checks it rejects them.")
        .would("The secrets are deleted. Signing again needs a new one.")
        .dangerously())
}

pub(crate) async fn stop_signing(call: Call<Subscription>) -> PageResult<Flash> {
    let (broker, (topic, name)) = (&call.broker, signer(&call.of)?.names());
    let removed = broker.remove_signing_secrets(call.by(), topic, name);
    removed.await?;
    Ok(Flash::done(format!("{name} signs no more.")))
}

/// Returns the subscription itself, or an error if it sends no requests that could be signed.
fn signer(of: &Subscription) -> PageResult<&Subscription> {
    match of.subscription.definition.destination.signing() {
        Some(_) => Ok(of),
        None => Err(ManageError::NothingSent(of.subscription.name.clone()).into()),
    }
}
