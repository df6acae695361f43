//! Credentials that deliveries show to a webhook, in the `properties` of its destination: extensions.
//!
//! Answers never show a secret. A change that leaves one out keeps it, as long as what it belongs to (the user, the
//! client, the certificate) stays the same.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::mirror::documents;
use super::rules::Judged;
use super::secret::is_hidden;
use super::values::default_if_null;
use crate::base::Timestamp;
use crate::model::access::Secret;
use crate::model::credentials::{
    Authentication, ClientCertificate, ClientCredentials, Credentials, SecretPlace, TlsMaterial,
};
use crate::model::destination::EndpointUrl;
use crate::model::limits::{CREDENTIAL_BYTES_MAX, PEM_BYTES_MAX, SIGNING_SECRETS_MAX};
use crate::model::signing::{ActiveSecret, Signing, SigningSecret};
use crate::wire::pem::{self, Part};

documents! {
    ActiveSecret => ActiveSecretDocument;
    Authentication => AuthenticationDocument;
    ClientCertificate => ClientCertificateDocument;
    ClientCredentials => ClientCredentialsDocument;
    Credentials => CredentialsDocument;
    SecretPlace => SecretPlaceDocument;
    Signing => SigningDocument;
}

/// The properties of a webhook that prove who calls it.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Credentials")]
struct CredentialsDocument {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    authentication: Option<Authentication>,
    #[serde(flatten, with = "tls")]
    #[schemars(with = "TlsDocument")]
    tls: Option<Arc<TlsMaterial>>,
    #[serde(
        rename = "signingSecrets",
        default,
        deserialize_with = "default_if_null"
    )]
    #[serde(skip_serializing_if = "is_empty")]
    #[schemars(with = "Option<Signing>")]
    signing: Signing,
}

fn is_empty(signing: &Signing) -> bool {
    signing.0.is_empty()
}

/// The content of the header `Authorization` of deliveries.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Authentication", tag = "type")]
#[schemars(rename = "Authentication")]
enum AuthenticationDocument {
    Basic {
        #[schemars(length(min = 1), extend("x-maxBytes" = CREDENTIAL_BYTES_MAX))]
        #[schemars(extend("x-expected" = "the name of a user", "x-check" = "username"))]
        username: String,
        /// Null in answers; left out, it stays.
        #[schemars(length(min = 1), extend("x-maxBytes" = CREDENTIAL_BYTES_MAX))]
        #[schemars(extend("x-expected" = "the user's password", "x-check" = "headerValue"))]
        #[schemars(extend("x-kept" = ["username"]))]
        password: Secret,
    },
    Bearer {
        /// Null in answers; left out, it stays.
        #[schemars(length(min = 1), extend("x-maxBytes" = CREDENTIAL_BYTES_MAX))]
        #[schemars(extend("x-expected" = "the token that is sent", "x-check" = "bearerToken"))]
        #[schemars(extend("x-kept" = []))]
        token: Secret,
    },
    ClientCredentials(ClientCredentials),
}

/// A bearer token that is fetched (RFC 6749, section 4.4).
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(remote = "ClientCredentials", rename_all = "camelCase")]
#[schemars(inline)]
struct ClientCredentialsDocument {
    /// Without its query in answers; given like that, it keeps the query.
    #[schemars(length(min = 1), extend("x-maxBytes" = CREDENTIAL_BYTES_MAX))]
    #[schemars(extend("x-expected" = "the URL that tokens are fetched from", "x-keepsQuery" = true))]
    token_url: EndpointUrl,
    #[schemars(length(min = 1), extend("x-maxBytes" = CREDENTIAL_BYTES_MAX))]
    #[schemars(extend("x-expected" = "the id of a client", "x-check" = "headerValue"))]
    client_id: String,
    /// Null in answers; left out, it stays.
    #[schemars(length(min = 1), extend("x-maxBytes" = CREDENTIAL_BYTES_MAX))]
    #[schemars(extend("x-expected" = "the client's secret", "x-check" = "headerValue"))]
    #[schemars(extend("x-kept" = ["tokenUrl", "clientId"]))]
    client_secret: Secret,
    #[schemars(extend("x-maxBytes" = CREDENTIAL_BYTES_MAX, "x-check" = "headerValue"))]
    scope: Option<String>,
    /// Sent as `audience`, which some authorization servers want.
    #[schemars(extend("x-maxBytes" = CREDENTIAL_BYTES_MAX, "x-check" = "headerValue"))]
    audience: Option<String>,
    /// Where the client's secret is sent.
    #[serde(default)]
    sent_in: SecretPlace,
}

/// The part of the request for a token that has the client's secret.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(remote = "SecretPlace")]
#[schemars(rename = "SecretPlace")]
enum SecretPlaceDocument {
    Header,
    Body,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(remote = "TlsMaterial", rename_all = "camelCase")]
struct TlsDocument {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    client_certificate: Option<ClientCertificate>,
    /// Certificates in PEM that are trusted besides the system's.
    #[serde(
        rename = "certificateAuthorities",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(extend("x-maxBytes" = PEM_BYTES_MAX, "x-check" = "certificates"))]
    authorities: Option<String>,
}

/// Shown to webhooks that ask for one.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(remote = "ClientCertificate")]
#[schemars(rename = "ClientCertificate", extend("x-rule" = "clientCertificate"))]
struct ClientCertificateDocument {
    /// In PEM, with its chain.
    #[schemars(length(min = 1), extend("x-maxBytes" = PEM_BYTES_MAX))]
    #[schemars(extend("x-expected" = "a certificate in PEM, with its chain"))]
    certificate: String,
    /// Null in answers; left out, it stays.
    #[schemars(length(min = 1), extend("x-maxBytes" = PEM_BYTES_MAX))]
    #[schemars(extend("x-expected" = "the certificate's private key in PEM"))]
    #[schemars(extend("x-kept" = ["certificate"]))]
    key: Secret,
}

/// Left out or null, they stay; an empty list ends them.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Signing", transparent)]
#[schemars(extend("x-noun" = "signing secrets", "x-key" = "fingerprint"))]
struct SigningDocument(#[schemars(length(max = SIGNING_SECRETS_MAX))] Vec<ActiveSecret>);

/// A secret that signs deliveries. A new one is given, one that stays is named by its fingerprint.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(remote = "ActiveSecret", rename_all = "camelCase")]
#[schemars(rename = "SigningSecret", extend("x-rule" = "signingSecret"))]
struct ActiveSecretDocument {
    #[serde(flatten, with = "fingerprinted")]
    #[schemars(with = "Fingerprinted")]
    secret: SigningSecret,
    #[serde(default)]
    #[schemars(skip_deserializing)]
    created_at: Timestamp,
    /// When it stops to sign; null for the newest.
    #[serde(default)]
    #[schemars(skip_deserializing)]
    expires_at: Option<Timestamp>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Fingerprinted {
    /// `whsec_` and 24 to 64 bytes in base64.
    #[serde(skip_serializing_if = "is_hidden")]
    #[schemars(extend("writeOnly" = true))]
    secret: Option<SigningSecret>,
    /// The first 16 digits of the secret's SHA-256.
    fingerprint: Option<String>,
}

mod fingerprinted {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::{Fingerprinted, SigningSecret};

    pub(super) fn serialize<S: Serializer>(
        secret: &SigningSecret,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let fingerprint = Some(secret.fingerprint());
        Fingerprinted {
            secret: Some(secret.clone()),
            fingerprint,
        }
        .serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<SigningSecret, D::Error> {
        let read = Fingerprinted::deserialize(deserializer)?;
        read.secret.ok_or_else(|| D::Error::missing_field("secret"))
    }
}

/// Nothing at all where a webhook needs no TLS of its own.
mod tls {
    use std::sync::Arc;

    use serde::{Deserializer, Serializer};

    use super::{TlsDocument, TlsMaterial};

    pub(super) fn serialize<S: Serializer>(
        tls: &Option<Arc<TlsMaterial>>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let nothing = TlsMaterial {
            client_certificate: None,
            authorities: None,
        };
        TlsDocument::serialize(tls.as_deref().unwrap_or(&nothing), serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Arc<TlsMaterial>>, D::Error> {
        let tls = TlsDocument::deserialize(deserializer)?;
        let is_there = tls.client_certificate.is_some() || tls.authorities.is_some();
        Ok(is_there.then(|| Arc::new(tls)))
    }
}

pub(super) fn judge_client_certificate(it: &mut Judged<'_>) {
    let (Some(certificate), Some(key)) = (it.text("certificate"), it.text("key")) else {
        return;
    };
    match pem::identity_problem(certificate, key) {
        None => {}
        Some((Part::Certificate, problem)) => it.fault("certificate", problem),
        Some((Part::Key, problem)) => it.fault("key", problem),
    }
}

pub(super) fn judge_signing_secret(it: &mut Judged<'_>) {
    match (it.has("secret"), it.has("fingerprint")) {
        (true, _) => {
            let now = json!(it.context.now);
            it.object.insert("createdAt".to_owned(), now);
        }
        (false, true) => match it.before {
            Some(known) => *it.object = known.as_object().cloned().unwrap_or_default(),
            None => it.fault("fingerprint", "no secret in use has it; give the secret"),
        },
        (false, false) => it.missing("secret", "\"whsec_\" and 24 to 64 bytes in base64"),
    }
}
