//! What the webhook is shown besides events: credentials, a client certificate, and a first signing secret.
//!
//! What is stored is never shown: a secret that is left empty stays as it is. What was typed and not saved
//! goes back to whoever typed it, in the answer to that very request, so that nothing is lost when the form is
//! drawn again.

use serde_json::{Value, json};

use super::value::text;
use crate::admin::forms::field::Field;
use crate::admin::forms::form::{Form, Refusal};
use crate::model::credentials::{Authentication, Credentials};

const AUTHENTICATION: &str = "authentication";
const TYPE: &str = "authentication.type";
const CERTIFICATE: &str = "clientCertificate";
const CHAIN: &str = "clientCertificate.certificate";
const KEY: &str = "clientCertificate.key";
const AUTHORITIES: &str = "certificateAuthorities";
const SIGNING: &str = "signingSecrets";

/// Box and field of a first signing secret.
pub(crate) const SIGN: &str = "sign";
pub(crate) const SIGNING_SECRET: &str = "signingSecrets.secret";

const BASIC: &str = "Basic";
const BEARER: &str = "Bearer";
const CLIENT: &str = "ClientCredentials";

/// The properties of each kind of authentication, by the ends of their fields' names.
const PROPERTIES: [(&str, &[&str]); 3] = [
    (BASIC, &["username", "password"]),
    (BEARER, &["token"]),
    (
        CLIENT,
        &[
            "tokenUrl",
            "clientId",
            "clientSecret",
            "scope",
            "audience",
            "sentIn",
        ],
    ),
];

fn name(property: &str) -> String {
    format!("{AUTHENTICATION}.{property}")
}

/// Everything but the secrets, which a document does not have.
pub(crate) fn fill(form: &mut Form, properties: &Value) {
    let destination = &properties["destination"]["properties"];
    let known = &destination[AUTHENTICATION];
    form.set(TYPE, text(&known["type"]));
    for property in PROPERTIES.iter().flat_map(|(_, properties)| *properties) {
        form.set(name(property), text(&known[property]));
    }
    form.set(CHAIN, text(&destination[CERTIFICATE]["certificate"]));
    form.set(AUTHORITIES, text(&destination[AUTHORITIES]));
}

pub(crate) fn write(form: &Form, properties: &mut Value) {
    let destination = &mut properties["destination"]["properties"];
    destination[AUTHENTICATION] = authentication(form);
    destination[CERTIFICATE] = match (pem(form, CHAIN), pem(form, KEY)) {
        (None, None) => Value::Null,
        (certificate, key) => json!({ "certificate": certificate, "key": key }),
    };
    destination[AUTHORITIES] = pem(form, AUTHORITIES).into();
    // Left out, those that sign go on.
    if let Some(secret) = form.filled(SIGNING_SECRET) {
        destination[SIGNING] = json!([{ "secret": secret }]);
    }
}

/// `null` for none.
fn authentication(form: &Form) -> Value {
    let kind = form.text(TYPE);
    let Some((_, properties)) = PROPERTIES.iter().find(|(known, _)| *known == kind) else {
        return form
            .filled(TYPE)
            .map_or(Value::Null, |kind| json!({ "type": kind }));
    };
    let mut authentication = json!({ "type": kind });
    for property in *properties {
        // White space may be a part of a password.
        let text = match *property {
            "password" | "clientSecret" => form.raw(&name(property)),
            _ => form.text(&name(property)),
        };
        if !text.is_empty() {
            authentication[*property] = text.into();
        }
    }
    authentication
}

/// Browsers end lines as HTTP does; files of certificates do not.
fn pem(form: &Form, name: &str) -> Option<String> {
    let text = form.filled(name)?;
    Some(format!("{}\n", text.replace("\r\n", "\n")))
}

/// A fault of something as a whole is told by its first field.
pub(crate) fn place(refusal: Refusal) -> Refusal {
    let target = match refusal.target.rsplit('.').next() {
        Some(AUTHENTICATION) => format!("{}.type", refusal.target),
        Some(CERTIFICATE) => format!("{}.certificate", refusal.target),
        Some(SIGNING) => format!("{}.secret", refusal.target),
        _ => return refusal,
    };
    Refusal { target, ..refusal }
}

/// `current` is what is stored; `None` for a new subscription.
pub(crate) fn fields(form: &Form, current: Option<&Credentials>) -> Vec<Field> {
    let mut fields = authentication_fields(form, current);
    fields.extend(tls_fields(form, current));
    fields
}

/// In a few words.
pub(crate) fn summary(form: &Form) -> String {
    let shown = match form.text(TYPE) {
        BASIC => Some("user name and password"),
        BEARER => Some("a fixed token"),
        CLIENT => Some("tokens from an authorization server"),
        _ => None,
    };
    let certificate = form.filled(CHAIN).map(|_| "a client certificate");
    let authorities = form.filled(AUTHORITIES);
    let authorities = authorities.map(|_| "certificate authorities of its own");
    let parts: Vec<&str> = [shown, certificate, authorities]
        .into_iter()
        .flatten()
        .collect();
    match parts.as_slice() {
        [] => "none".to_owned(),
        parts => parts.join(", "),
    }
}

/// For a new subscription; later, secrets are made one after the other on a page of their own.
pub(crate) fn signing_fields(form: &Form) -> Vec<Field> {
    vec![
        Field::tick(SIGN, "Sign every request (Standard Webhooks)", form).hint(
            "A secret is made, and shown once after the subscription is created; the receiver checks \
             with it that requests are genuine.",
        ),
        Field::secret(SIGNING_SECRET, "Signing secret of your own", form)
            .hint("whsec_ and 24 to 64 bytes in base64. Empty has one made if the box is ticked."),
    ]
}

/// In a few words.
pub(crate) fn signing_summary(form: &Form) -> &'static str {
    match (form.filled(SIGNING_SECRET), form.is_on(SIGN)) {
        (Some(_), _) => "requests are signed with a secret of your own",
        (None, true) => "requests are signed with a secret that is made here",
        (None, false) => "requests are not signed",
    }
}

fn authentication_fields(form: &Form, current: Option<&Credentials>) -> Vec<Field> {
    let kinds = [
        ("", "None"),
        (BASIC, "User name and password (Basic)"),
        (BEARER, "Bearer token"),
        (
            CLIENT,
            "Tokens from an authorization server (OAuth 2.0 client credentials)",
        ),
    ];
    let places = [
        ("", "In a header, as most servers want"),
        ("Body", "In the body"),
    ];
    let stored = current.and_then(|current| current.authentication.as_ref());
    let keeps = |is_of_kind: fn(&Authentication) -> bool, what: &str| match stored {
        Some(stored) if is_of_kind(stored) => {
            format!("Leave it empty to keep the stored one{what}. It is not shown again.")
        }
        _ => "It is not shown again.".to_owned(),
    };
    let is_basic = |stored: &Authentication| matches!(stored, Authentication::Basic { .. });
    let is_bearer = |stored: &Authentication| matches!(stored, Authentication::Bearer { .. });
    let is_client =
        |stored: &Authentication| matches!(stored, Authentication::ClientCredentials(_));
    vec![
        Field::choice(TYPE, "Authentication", &kinds, form),
        Field::line(&name("username"), "User name", form).only_for("only-basic"),
        Field::secret(&name("password"), "Password", form)
            .hint(keeps(is_basic, " of the same user"))
            .only_for("only-basic"),
        Field::secret(&name("token"), "Token", form)
            .hint(keeps(is_bearer, ""))
            .only_for("only-bearer"),
        Field::url(&name("tokenUrl"), "Token URL", form)
            .mono()
            .hint("Where the authorization server hands out tokens.")
            .only_for("only-client"),
        Field::line(&name("clientId"), "Client id", form)
            .mono()
            .only_for("only-client"),
        Field::secret(&name("clientSecret"), "Client secret", form)
            .hint(keeps(is_client, " of the same client and token URL"))
            .only_for("only-client"),
        Field::line(&name("scope"), "Scope", form)
            .mono()
            .only_for("only-client"),
        Field::line(&name("audience"), "Audience", form)
            .mono()
            .hint("Some servers want to know for whom a token is.")
            .only_for("only-client"),
        Field::choice(
            &name("sentIn"),
            "The client's secret is sent",
            &places,
            form,
        )
        .only_for("only-client"),
    ]
}

fn tls_fields(form: &Form, current: Option<&Credentials>) -> Vec<Field> {
    let stored = current.and_then(|current| current.tls.as_ref());
    let key_hint = match stored.is_some_and(|stored| stored.client_certificate.is_some()) {
        true => "PEM. Leave it empty to keep the stored one of the same certificate.",
        false => "PEM, without a pass phrase. It is not shown again.",
    };
    vec![
        Field::area(CHAIN, "Client certificate (mTLS)", 3, form)
            .hint("PEM, with its chain. Empty shows none."),
        Field::area(KEY, "Private key of the certificate", 3, form)
            .hint(key_hint)
            .masked(),
        Field::area(AUTHORITIES, "Certificate authorities", 3, form)
            .hint("PEM. They are trusted besides the system's, for this webhook alone."),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::tests::{CONTEXT, form};
    use super::super::{changed, new};
    use super::*;
    use crate::model::access::Secret;
    use crate::model::credentials::SecretPlace;
    use crate::model::destination::{DeliveryMode, Destination};
    use crate::model::subscription::SubscriptionDefinition;

    fn credentials(definition: &SubscriptionDefinition) -> &Credentials {
        match &definition.destination {
            Destination::WebHook(webhook) => &webhook.credentials,
            Destination::Queue(_) => panic!("a pulled one has no credentials"),
        }
    }

    fn authentication_of(definition: &SubscriptionDefinition) -> Option<&Authentication> {
        credentials(definition).authentication.as_ref()
    }

    const CLIENT_FIELDS: [(&str, &str); 6] = [
        (TYPE, CLIENT),
        ("authentication.tokenUrl", "https://login.test/token"),
        ("authentication.clientId", "shop"),
        ("authentication.scope", "events"),
        ("authentication.audience", ""),
        ("authentication.sentIn", "Body"),
    ];

    #[test]
    fn each_kind_is_read_and_keeps_its_secret() {
        let basic = [(TYPE, BASIC), ("authentication.username", "ann")];
        for (fields, secret) in [
            (&basic[..], ("authentication.password", " a b ")),
            (&[(TYPE, BEARER)][..], ("authentication.token", "hush")),
            (&CLIENT_FIELDS[..], ("authentication.clientSecret", "hush ")),
        ] {
            let given = form(&[fields, &[secret]].concat());
            let first = new(&given, DeliveryMode::Push, &CONTEXT).expect("a definition");
            let kept = match authentication_of(&first).expect("credentials") {
                Authentication::Basic { password, .. } => password,
                Authentication::Bearer { token } => token,
                Authentication::ClientCredentials(client) => {
                    assert_eq!(
                        (client.scope.as_deref(), client.audience.as_ref()),
                        (Some("events"), None)
                    );
                    assert_eq!(client.sent_in, SecretPlace::Body);
                    &client.client_secret
                }
            };
            assert_eq!(kept, &Secret::new(secret.1));
            let second = changed(&form(fields), &first, &CONTEXT).expect("a definition");
            assert_eq!(credentials(&second), credentials(&first));
            let third = changed(&form(&[]), &first, &CONTEXT).expect("a definition");
            assert_eq!(authentication_of(&third), None);
            let refusal = new(&form(fields), DeliveryMode::Push, &CONTEXT).expect_err("no secret");
            assert_eq!(refusal.closeness(secret.0), 2, "{refusal:?}");
        }
    }

    #[test]
    fn what_is_wrong_is_told_by_its_field() {
        let header = [
            ("deliveryAttributeMappings[0].name", "Authorization"),
            ("deliveryAttributeMappings[0].type", "Static"),
            ("deliveryAttributeMappings[0].properties.value", "x"),
        ];
        let bearer = [(TYPE, BEARER), ("authentication.token", "hush")];
        for (fields, field) in [
            (vec![(TYPE, "Kerberos")], TYPE),
            (
                vec![(TYPE, BASIC), ("authentication.password", "hush")],
                "authentication.username",
            ),
            (
                vec![(TYPE, BEARER), ("authentication.token", "a b")],
                "authentication.token",
            ),
            ([&bearer[..], &header].concat(), TYPE),
            (vec![(CHAIN, "no PEM")], KEY),
            (vec![(CHAIN, "no PEM"), (KEY, "none")], CHAIN),
            (vec![(KEY, "none")], CHAIN),
            (vec![(AUTHORITIES, "no PEM")], AUTHORITIES),
            (vec![(SIGNING_SECRET, "whsec_short")], SIGNING_SECRET),
        ] {
            let refusal = new(&form(&fields), DeliveryMode::Push, &CONTEXT).expect_err(field);
            let most = field.split('.').count();
            assert_eq!(refusal.closeness(field), most, "{field}: {refusal:?}");
        }
    }

    #[test]
    fn certificates_come_with_the_line_ends_of_files() {
        let form = form(&[(CHAIN, "a\r\nb\r\n"), (KEY, " k ")]);
        let mut properties = Value::Null;
        write(&form, &mut properties);
        let destination = &properties["destination"]["properties"];
        let expected = json!({ "certificate": "a\nb\n", "key": "k\n" });
        assert_eq!(destination[CERTIFICATE], expected);
        assert_eq!(destination[AUTHENTICATION], Value::Null);
        assert_eq!(destination.get(SIGNING), None);
    }

    #[test]
    fn a_form_is_filled_with_everything_but_secrets() {
        let known = json!({ "destination": { "properties": {
            AUTHENTICATION: { "type": CLIENT, "tokenUrl": "https://login.test/token", "clientId": "shop",
                "clientSecret": null, "scope": "events", "audience": null, "sentIn": "Body" },
            CERTIFICATE: { "certificate": "c", "key": null },
            AUTHORITIES: "a",
        } } });
        let mut form = Form::default();
        fill(&mut form, &known);
        for (field, value) in CLIENT_FIELDS {
            assert_eq!(form.raw(field), value);
        }
        assert_eq!(
            (form.raw(CHAIN), form.raw(KEY), form.raw(AUTHORITIES)),
            ("c", "", "a")
        );
        assert_eq!(form.raw("authentication.clientSecret"), "");
    }
}
