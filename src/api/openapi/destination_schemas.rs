//! Where events and dead letters go: what is sent, and what is shown.

use super::schema::{
    Schema, Schemas, either, flag, integer, list, named, number, object, schemas, text, url, words,
};
use super::topics::{INERT, tls_version};
use crate::model::limits::{
    BATCH_EVENTS_MAX, BATCH_KILOBYTES_MAX, CREDENTIAL_BYTES_MAX, DELIVERY_ATTRIBUTE_BYTES_MAX,
    DELIVERY_ATTRIBUTES_MAX, ENDPOINT_URL_BYTES_MAX, IN_FLIGHT_OWN_MAX, PEM_BYTES_MAX,
    RESPONSE_DEADLINE_S_MAX, SIGNING_SECRETS_MAX,
};
use crate::model::pace::Rate;

/// All of them by their names.
pub(super) fn all() -> Schemas {
    schemas([
        ("WebHookDestination", web_hook_shown()),
        ("WebHookDestinationDefinition", web_hook_definition()),
        ("DeliveryAttributeMapping", attribute_mapping()),
        ("Authentication", authentication()),
        ("ClientCertificate", client_certificate()),
        ("DeadLetterDestination", dead_letter_destination()),
        ("DeadLetterStorage", dead_letter_storage()),
    ])
}

/// The webhook's properties that are sent as they are shown.
fn web_hook_common() -> Schema {
    let mappings = list(named("DeliveryAttributeMapping")).elements(&(0..=DELIVERY_ATTRIBUTES_MAX));
    let (slowest, fastest) = Rate::BOUNDS.into_inner();
    let rate = format!(
        "Requests started per second, from {} to {}.",
        f64::from(slowest) / 1_000.0,
        f64::from(fastest) / 1_000.0
    );
    object([
        (
            "maxEventsPerBatch",
            integer().up_to(BATCH_EVENTS_MAX).by_default(1).optional(),
        ),
        (
            "preferredBatchSizeInKilobytes",
            integer()
                .up_to(BATCH_KILOBYTES_MAX)
                .by_default(64)
                .optional(),
        ),
        (
            "deliveryAttributeMappings",
            mappings.says("Headers of your own.").optional(),
        ),
        (
            "skipValidation",
            flag()
                .says("Leaves the handshake out.")
                .by_default(false)
                .optional(),
        ),
        (
            "responseDeadlineInSeconds",
            integer()
                .up_to(RESPONSE_DEADLINE_S_MAX)
                .says("How long the webhook has to answer.")
                .optional(),
        ),
        (
            "maxRequestsInFlight",
            integer()
                .up_to(IN_FLIGHT_OWN_MAX)
                .says("Requests on the wire at once.")
                .optional(),
        ),
        ("maxRequestsPerSecond", number().says(rate).optional()),
        ("authentication", named("Authentication").optional()),
        ("clientCertificate", named("ClientCertificate").optional()),
        (
            "certificateAuthorities",
            text()
                .long(&(0..=PEM_BYTES_MAX))
                .says("Certificates in PEM that are trusted besides the system's.")
                .optional(),
        ),
    ])
}

fn web_hook_shown() -> Schema {
    let properties = web_hook_common().with([
        ("endpointBaseUrl", url().says("The URL without its query.")),
        ("signingSecrets", list(named("SigningSecret")).optional()),
    ]);
    object([
        ("endpointType", words(["WebHook"])),
        ("properties", properties),
    ])
}

fn web_hook_definition() -> Schema {
    let secret = object([
        (
            "secret",
            text()
                .says("`whsec_` and 24 to 64 bytes in base64.")
                .optional(),
        ),
        (
            "fingerprint",
            text().says("Of a secret that stays.").optional(),
        ),
    ]);
    let secrets = list(secret.open()).elements(&(0..=SIGNING_SECRETS_MAX));
    let properties = web_hook_common().with([
        (
            "endpointUrl",
            url()
                .long(&(1..=ENDPOINT_URL_BYTES_MAX))
                .says("May be left out in an update.")
                .optional(),
        ),
        (
            "signingSecrets",
            secrets
                .or_null()
                .says("Left out, they stay; empty or null ends them.")
                .optional(),
        ),
        (
            "minimumTlsVersionAllowed",
            tls_version().says(INERT).optional(),
        ),
    ]);
    object([
        ("endpointType", words(["WebHook"])),
        ("properties", properties.open()),
    ])
    .open()
}

fn attribute_mapping() -> Schema {
    let value = text().long(&(0..=DELIVERY_ATTRIBUTE_BYTES_MAX)).or_null();
    let fixed = object([
        (
            "value",
            value.says("Null in answers where it is secret.").optional(),
        ),
        ("isSecret", flag().by_default(false).optional()),
    ]);
    let dynamic = object([(
        "sourceField",
        text()
            .such_as("data.orderId")
            .says("A path into the event."),
    )]);
    either([
        object([
            ("name", text()),
            ("type", words(["Static"])),
            ("properties", fixed),
        ]),
        object([
            ("name", text()),
            ("type", words(["Dynamic"])),
            ("properties", dynamic),
        ]),
    ])
    .says("A header of every delivery: a fixed value, or one out of the event.")
}

fn secret() -> Schema {
    text()
        .long(&(0..=CREDENTIAL_BYTES_MAX))
        .or_null()
        .says("Null in answers; left out, it stays.")
        .optional()
}

fn authentication() -> Schema {
    either([
        object([
            ("type", words(["Basic"])),
            ("username", text()),
            ("password", secret()),
        ]),
        object([("type", words(["Bearer"])), ("token", secret())]),
        object([
            ("type", words(["ClientCredentials"])),
            ("tokenUrl", url()),
            ("clientId", text()),
            ("clientSecret", secret()),
            ("scope", text().or_null().optional()),
            ("audience", text().or_null().optional()),
            (
                "sentIn",
                words(["Header", "Body"]).by_default("Header").optional(),
            ),
        ]),
    ])
    .says("What goes into the header `Authorization` of deliveries.")
}

fn client_certificate() -> Schema {
    let pem = || text().long(&(0..=PEM_BYTES_MAX));
    object([
        ("certificate", pem().says("In PEM, with its chain.")),
        (
            "key",
            pem()
                .or_null()
                .says("Null in answers; left out, it stays.")
                .optional(),
        ),
    ])
    .says("Shown to webhooks that ask for one.")
}

fn dead_letter_destination() -> Schema {
    let properties = object([
        (
            "blobContainerName",
            text()
                .like("^[a-z0-9][a-z0-9-]{1,61}[a-z0-9]$")
                .says("A container, bucket or directory."),
        ),
        (
            "resourceId",
            text()
                .says("A storage account's; not needed with `storage`.")
                .optional(),
        ),
        ("storage", named("DeadLetterStorage").optional()),
    ]);
    object([
        ("endpointType", words(["StorageBlob"])),
        ("properties", properties),
    ])
    .says("Where dead letters go instead of staying in their queue.")
}

fn dead_letter_storage() -> Schema {
    either([
        object([
            ("type", words(["S3"])),
            (
                "endpointUrl",
                url().or_null().says("Without it, AWS.").optional(),
            ),
            ("region", text().optional()),
            ("accessKeyId", text()),
            ("secretAccessKey", secret()),
        ]),
        object([
            ("type", words(["AzureBlob"])),
            (
                "endpointUrl",
                url()
                    .or_null()
                    .says("Without it, Azure's public cloud.")
                    .optional(),
            ),
            ("accountName", text()),
            ("accountKey", secret()),
            ("sasToken", secret()),
        ]),
    ])
}
