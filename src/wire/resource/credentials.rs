//! What a webhook is shown besides events, inside the `properties` of its destination: extensions.
//!
//! Answers never show a secret. An update that leaves one out keeps it, as long as what it belongs to
//! (the user, the client, the certificate) stays the same.

use std::sync::Arc;

use http::HeaderValue;
use serde_json::{Value, json};

use super::InvalidResource;
use super::fields::Fields;
use crate::base::Timestamp;
use crate::model::access::Secret;
use crate::model::credentials::{
    Authentication, ClientCertificate, ClientCredentials, Credentials, SecretPlace, TlsMaterial,
};
use crate::model::destination::{EndpointUrl, WebHook};
use crate::model::limits::{CREDENTIAL_BYTES_MAX, PEM_BYTES_MAX, SIGNING_SECRETS_MAX};
use crate::model::signing::{ActiveSecret, Signing, SigningSecret};
use crate::wire::client_credentials::is_token;
use crate::wire::pem::{self, Part};

pub(super) const AUTHENTICATION: &str = "authentication";
pub(super) const CERTIFICATE: &str = "clientCertificate";
pub(super) const AUTHORITIES: &str = "certificateAuthorities";
pub(super) const SIGNING: &str = "signingSecrets";

/// The three kinds of [`Authentication`].
const BASIC: &str = "Basic";
const BEARER: &str = "Bearer";
const CLIENT_CREDENTIALS: &str = "ClientCredentials";

/// Words for [`SecretPlace`].
const PLACES: [(&str, SecretPlace); 2] =
    [("Header", SecretPlace::Header), ("Body", SecretPlace::Body)];

/// Reads the four properties; `kept` has the secrets that need not be given again.
pub(super) fn read(
    properties: &Fields,
    kept: Option<&Credentials>,
    now: Timestamp,
) -> Result<Credentials, InvalidResource> {
    let authentication = kept.and_then(|kept| kept.authentication.as_ref());
    let tls = kept.and_then(|kept| kept.tls.as_deref());
    Ok(Credentials {
        authentication: read_authentication(properties, authentication)?,
        tls: read_tls(properties, tls)?,
        signing: read_signing(properties, kept.map(|kept| &kept.signing), now)?,
    })
}

fn read_authentication(
    properties: &Fields,
    kept: Option<&Authentication>,
) -> Result<Option<Authentication>, InvalidResource> {
    let Some(fields) = properties.object(AUTHENTICATION)? else {
        return Ok(None);
    };
    let read = fields.choice("type", &AUTHENTICATIONS)?;
    let kinds = "\"Basic\", \"Bearer\" or \"ClientCredentials\"";
    let read = read.ok_or_else(|| fields.missing("type", kinds))?;
    read(&fields, kept).map(Some)
}

type Read = fn(&Fields, Option<&Authentication>) -> Result<Authentication, InvalidResource>;

const AUTHENTICATIONS: [(&str, Read); 3] = [
    (BASIC, read_basic),
    (BEARER, read_bearer),
    (CLIENT_CREDENTIALS, read_client_credentials),
];

fn read_basic(
    fields: &Fields,
    kept: Option<&Authentication>,
) -> Result<Authentication, InvalidResource> {
    fields.expect_names(&["type", "username", "password"])?;
    let username = fields.required_text("username", "the name of a user")?;
    let kept = match kept {
        Some(Authentication::Basic {
            username: same,
            password,
        }) if same == username => Some(password),
        _ => None,
    };
    Ok(Authentication::Basic {
        username: username.to_owned(),
        password: read_secret(fields, "password", "the user's password", kept)?,
    })
}

fn read_bearer(
    fields: &Fields,
    kept: Option<&Authentication>,
) -> Result<Authentication, InvalidResource> {
    fields.expect_names(&["type", "token"])?;
    let kept = match kept {
        Some(Authentication::Bearer { token }) => Some(token),
        _ => None,
    };
    let token = read_secret(fields, "token", "the token that is sent", kept)?;
    Ok(Authentication::Bearer { token })
}

fn read_client_credentials(
    fields: &Fields,
    kept: Option<&Authentication>,
) -> Result<Authentication, InvalidResource> {
    const SECRET: &str = "clientSecret";
    fields.expect_names(&[
        "type", "tokenUrl", "clientId", SECRET, "scope", "audience", "sentIn",
    ])?;
    let url = fields.required_text("tokenUrl", "the URL that tokens are fetched from")?;
    let token_url = EndpointUrl::parse(url);
    let token_url = token_url.map_err(|problem| fields.invalid("tokenUrl", problem.to_string()))?;
    let client_id = fields.required_text("clientId", "the id of a client")?;
    let kept = match kept {
        Some(Authentication::ClientCredentials(kept))
            if kept.client_id == client_id && kept.token_url == token_url =>
        {
            Some(&kept.client_secret)
        }
        _ => None,
    };
    Ok(Authentication::ClientCredentials(ClientCredentials {
        client_secret: read_secret(fields, SECRET, "the client's secret", kept)?,
        token_url,
        client_id: client_id.to_owned(),
        scope: fields.text("scope")?.map(str::to_owned),
        audience: fields.text("audience")?.map(str::to_owned),
        sent_in: fields.choice("sentIn", &PLACES)?.unwrap_or_default(),
    }))
}

pub(super) fn read_secret(
    fields: &Fields,
    name: &str,
    expected: &str,
    kept: Option<&Secret>,
) -> Result<Secret, InvalidResource> {
    match (fields.value(name), kept) {
        (None, Some(kept)) => Ok(kept.clone()),
        _ => Ok(Secret::new(fields.required_text(name, expected)?)),
    }
}

fn read_tls(
    properties: &Fields,
    kept: Option<&TlsMaterial>,
) -> Result<Option<Arc<TlsMaterial>>, InvalidResource> {
    let authorities = properties.text(AUTHORITIES)?.map(str::to_owned);
    let kept = kept.and_then(|kept| kept.client_certificate.as_ref());
    let read = |fields: Fields| read_certificate(&fields, kept);
    let client_certificate = properties.object(CERTIFICATE)?.map(read).transpose()?;
    if authorities.is_none() && client_certificate.is_none() {
        return Ok(None);
    }
    Ok(Some(Arc::new(TlsMaterial {
        client_certificate,
        authorities,
    })))
}

fn read_certificate(
    fields: &Fields,
    kept: Option<&ClientCertificate>,
) -> Result<ClientCertificate, InvalidResource> {
    fields.expect_names(&["certificate", "key"])?;
    let expected = "a certificate in PEM, with its chain";
    let certificate = fields.required_text("certificate", expected)?;
    // Whatever ends its lines: a form changes that.
    let kept = kept.filter(|kept| kept.certificate.lines().eq(certificate.lines()));
    let key = kept.map(|kept| &kept.key);
    Ok(ClientCertificate {
        key: read_secret(fields, "key", "the certificate's private key in PEM", key)?,
        certificate: certificate.to_owned(),
    })
}

/// Left out, they stay: nothing that does not know of them should end them.
fn read_signing(
    properties: &Fields,
    kept: Option<&Signing>,
    now: Timestamp,
) -> Result<Signing, InvalidResource> {
    if let (true, Some(kept)) = (properties.is_absent(SIGNING), kept) {
        return Ok(kept.clone());
    }
    let given = properties.objects(SIGNING)?.unwrap_or_default();
    let kept = kept.map_or(&[][..], |kept| &kept.0);
    let read = |fields: &Fields| read_signing_secret(fields, kept, now);
    given
        .iter()
        .map(read)
        .collect::<Result<_, _>>()
        .map(Signing)
}

fn read_signing_secret(
    fields: &Fields,
    kept: &[ActiveSecret],
    now: Timestamp,
) -> Result<ActiveSecret, InvalidResource> {
    fields.expect_names(&["secret", "fingerprint", "createdAt", "expiresAt"])?;
    if let (None, Some(fingerprint)) = (fields.value("secret"), fields.text("fingerprint")?) {
        let mut kept = kept.iter();
        let known = kept.find(|each| each.secret.fingerprint() == fingerprint);
        let unknown = || fields.invalid("fingerprint", "no secret in use has it; give the secret");
        return known.cloned().ok_or_else(unknown);
    }
    let text = fields.required_text("secret", "\"whsec_\" and 24 to 64 bytes in base64")?;
    let secret = SigningSecret::parse(text);
    let secret = secret.map_err(|problem| fields.invalid("secret", problem.to_string()))?;
    let moment = |name| -> Result<Option<Timestamp>, InvalidResource> {
        Ok(fields.text(name)?.and_then(|text| text.parse().ok()))
    };
    Ok(match fields.is_stored() {
        true => ActiveSecret {
            secret,
            created_at: moment("createdAt")?.unwrap_or(now),
            expires_at: moment("expiresAt")?,
        },
        false => ActiveSecret {
            secret,
            created_at: now,
            expires_at: None,
        },
    })
}

/// The rules for what a client sends now.
pub(super) fn check(
    properties: &Fields,
    webhook: &WebHook,
    require_https: bool,
) -> Result<(), InvalidResource> {
    let credentials = &webhook.credentials;
    if let Some(authentication) = &credentials.authentication {
        let fields = properties.object_or_empty(AUTHENTICATION)?;
        check_authentication(&fields, authentication, require_https)?;
        let names = webhook.attribute_mappings.iter();
        let mut names = names.map(|mapping| mapping.name.as_str());
        if names.any(|name| name.eq_ignore_ascii_case("authorization")) {
            let problem = "deliveryAttributeMappings has a header Authorization already; leave one of \
                           the two out";
            return Err(properties.invalid(AUTHENTICATION, problem));
        }
    }
    if let Some(tls) = &credentials.tls {
        check_tls(properties, tls, webhook.endpoint_url.is_https())?;
    }
    match credentials.signing.0.len() {
        0..=SIGNING_SECRETS_MAX => Ok(()),
        count => {
            let problem = format!("at most {SIGNING_SECRETS_MAX} can sign, but there are {count}");
            Err(properties.invalid(SIGNING, problem))
        }
    }
}

fn check_authentication(
    fields: &Fields,
    authentication: &Authentication,
    require_https: bool,
) -> Result<(), InvalidResource> {
    match authentication {
        Authentication::Basic { username, password } => {
            if username.contains(':') {
                let problem = "it must not contain a colon, which ends it in the header";
                return Err(fields.invalid("username", problem));
            }
            check_credential(fields, "username", username)?;
            check_credential(fields, "password", password.reveal())
        }
        Authentication::Bearer { token } => {
            check_credential(fields, "token", token.reveal())?;
            match is_token(token.reveal()) {
                true => Ok(()),
                false => Err(fields.invalid("token", "it must be visible ASCII without spaces")),
            }
        }
        Authentication::ClientCredentials(client) => {
            if require_https && !client.token_url.is_https() {
                return Err(fields.invalid("tokenUrl", "it does not start with https"));
            }
            check_credential(fields, "tokenUrl", client.token_url.reveal().as_str())?;
            check_credential(fields, "clientId", &client.client_id)?;
            check_credential(fields, "clientSecret", client.client_secret.reveal())?;
            check_credential(fields, "scope", client.scope.as_deref().unwrap_or_default())?;
            let audience = client.audience.as_deref().unwrap_or_default();
            check_credential(fields, "audience", audience)
        }
    }
}

/// Never shows the text.
fn check_credential(fields: &Fields, name: &str, text: &str) -> Result<(), InvalidResource> {
    if text.len() > CREDENTIAL_BYTES_MAX {
        let problem = format!("it must have at most {CREDENTIAL_BYTES_MAX} bytes");
        return Err(fields.invalid(name, problem));
    }
    match HeaderValue::from_str(text) {
        Ok(_) => Ok(()),
        Err(_) => Err(fields.invalid(
            name,
            "control characters such as line breaks are not allowed",
        )),
    }
}

fn check_tls(
    properties: &Fields,
    tls: &TlsMaterial,
    is_https: bool,
) -> Result<(), InvalidResource> {
    let needs_https = |name| {
        let problem = "it has no meaning for a webhook that is called by http; give an https URL";
        Err(properties.invalid(name, problem))
    };
    if let Some(certificate) = &tls.client_certificate {
        if !is_https {
            return needs_https(CERTIFICATE);
        }
        check_certificate(properties, certificate)?;
    }
    let Some(authorities) = &tls.authorities else {
        return Ok(());
    };
    if !is_https {
        return needs_https(AUTHORITIES);
    }
    check_pem_size(properties, AUTHORITIES, authorities)?;
    match pem::authorities_problem(authorities) {
        Some(problem) => Err(properties.invalid(AUTHORITIES, problem)),
        None => Ok(()),
    }
}

fn check_certificate(
    properties: &Fields,
    ClientCertificate { certificate, key }: &ClientCertificate,
) -> Result<(), InvalidResource> {
    let fields = properties.object_or_empty(CERTIFICATE)?;
    check_pem_size(&fields, "certificate", certificate)?;
    check_pem_size(&fields, "key", key.reveal())?;
    match pem::identity_problem(certificate, key.reveal()) {
        None => Ok(()),
        Some((Part::Certificate, problem)) => Err(fields.invalid("certificate", problem)),
        Some((Part::Key, problem)) => Err(fields.invalid("key", problem)),
    }
}

fn check_pem_size(fields: &Fields, name: &str, text: &str) -> Result<(), InvalidResource> {
    match text.len() <= PEM_BYTES_MAX {
        true => Ok(()),
        false => {
            let problem = format!("it must have at most {PEM_BYTES_MAX} bytes");
            Err(fields.invalid(name, problem))
        }
    }
}

/// Whether secrets are written out.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Secrets {
    /// For answers.
    Hidden,
    /// For the store.
    Shown,
}

/// Adds what is there; what is not is left out.
pub(super) fn add(properties: &mut Value, credentials: &Credentials, secrets: Secrets) {
    let show = |secret: &Secret| match secrets {
        Secrets::Hidden => Value::Null,
        Secrets::Shown => json!(secret.reveal()),
    };
    if let Some(authentication) = &credentials.authentication {
        properties[AUTHENTICATION] = render_authentication(authentication, show);
    }
    if let Some(tls) = &credentials.tls {
        if let Some(ClientCertificate { certificate, key }) = &tls.client_certificate {
            properties[CERTIFICATE] = json!({ "certificate": certificate, "key": show(key) });
        }
        if let Some(authorities) = &tls.authorities {
            properties[AUTHORITIES] = json!(authorities);
        }
    }
    let signing = &credentials.signing;
    if !signing.0.is_empty() {
        properties[SIGNING] = match secrets {
            Secrets::Hidden => render_fingerprints(signing),
            Secrets::Shown => signing.0.iter().map(render_signing_secret).collect(),
        };
    }
}

fn render_authentication(
    authentication: &Authentication,
    show: impl Fn(&Secret) -> Value,
) -> Value {
    match authentication {
        Authentication::Basic { username, password } => {
            json!({ "type": BASIC, "username": username, "password": show(password) })
        }
        Authentication::Bearer { token } => json!({ "type": BEARER, "token": show(token) }),
        Authentication::ClientCredentials(client) => {
            let place = PLACES.iter().find(|(_, place)| *place == client.sent_in);
            json!({
                "type": CLIENT_CREDENTIALS,
                "tokenUrl": client.token_url.reveal().as_str(),
                "clientId": client.client_id,
                "clientSecret": show(&client.client_secret),
                "scope": client.scope,
                "audience": client.audience,
                "sentIn": place.map(|(word, _)| *word),
            })
        }
    }
}

/// The secrets as answers show them: newest first, by their fingerprints.
pub(super) fn render_fingerprints(signing: &Signing) -> Value {
    let render = |each: &ActiveSecret| {
        json!({
            "fingerprint": each.secret.fingerprint(),
            "createdAt": each.created_at.to_string(),
            "expiresAt": each.expires_at.map(|at| at.to_string()),
        })
    };
    signing.0.iter().map(render).collect()
}

fn render_signing_secret(each: &ActiveSecret) -> Value {
    json!({
        "secret": each.secret.reveal(),
        "createdAt": each.created_at.to_string(),
        "expiresAt": each.expires_at.map(|at| at.to_string()),
    })
}
