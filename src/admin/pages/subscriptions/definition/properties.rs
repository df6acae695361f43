//! Every property of an event subscription, in the order in which the form asks for them and the page shows them. A
//! new one is a row here.

use super::layout::{Fold, Layout, fold};
use crate::admin::forms::rows::{Row, RowList, RowSection, part, section};
use crate::model::limits::{
    ATTEMPTS_MAX, BATCH_EVENTS_MAX, BATCH_KILOBYTES_MAX, DELIVERY_ATTRIBUTES_MAX, FILTERS_MAX, IN_FLIGHT_OWN_MAX,
    NAMESPACE_ATTEMPTS_MAX, RECEIVE_LOCK_SECONDS, RESPONSE_DEADLINE_S_MAX, TIME_TO_LIVE_MINUTES_MAX,
};

/// The fields that code knows by their names.
pub(crate) const URL: &str = "endpointUrl";
pub(crate) const SCHEMA: &str = "eventDeliverySchema";
pub(super) const TIME_TO_LIVE: &str = "eventTimeToLive";
/// What becomes of dead letters: one of [`KEEP`], [`DROP`] and so on.
pub(super) const DEAD_LETTERS: &str = "deadLetterDestination";
/// Whether a first signing secret is made, and one that was brought.
pub(crate) const SIGN: &str = "sign";
pub(crate) const SIGNING_SECRET: &str = "signingSecrets[0].secret";

pub(super) const KEEP: &str = "keep";
pub(super) const DROP: &str = "drop";
pub(super) const DIRECTORY: &str = "directory";
pub(super) const S3: &str = "S3";
pub(super) const AZURE: &str = "AzureBlob";

/// The ids of lists to choose from: inspectors, and keys of the newest events.
pub(crate) const INSPECTORS_ID: &str = "inspectors";
pub(crate) const KEYS_ID: &str = "filter-keys";

const HEADER_TYPES: &[(&str, &str)] = &[("Static", "The same for every event"), ("Dynamic", "Taken from the event")];
const SCHEMAS: &[(&str, &str)] = &[
    ("", "As published"),
    ("EventGridSchema", "Event Grid"),
    ("CloudEventSchemaV1_0", "CloudEvents 1.0"),
    ("CustomInputSchema", "Custom, as published"),
];
const AUTHENTICATION: &[(&str, &str)] = &[
    ("", "None"),
    ("Basic", "User name and password (Basic)"),
    ("Bearer", "Bearer token"),
    ("ClientCredentials", "Tokens from an authorization server (OAuth 2.0 client credentials)"),
];
const SECRET_PLACES: &[(&str, &str)] = &[("", "In a header, as most servers want"), ("Body", "In the body")];
const FATES: &[(&str, &str)] = &[
    (KEEP, "Keep as dead letter"),
    (DROP, "Drop: nothing is kept"),
    (DIRECTORY, "Export to the directory of the server"),
    (S3, "Export to S3, or what speaks like it"),
    (AZURE, "Export to Azure Blob Storage"),
];

pub(crate) const HEADERS: RowList = RowList {
    name: "deliveryAttributeMappings",
    noun: "header",
    most: DELIVERY_ATTRIBUTES_MAX,
    rows: &[
        Row::line("name", "Name").mono(),
        Row::choice("type", "Value is", HEADER_TYPES),
        Row::hidable("properties.value", "Value", "properties.isSecret").only("type", &["Static"]),
        Row::tick("properties.isSecret", "Secret: it is not shown again").only("type", &["Static"]),
        Row::line("properties.sourceField", "Field of the event").only("type", &["Dynamic"]).mono()
            .suggesting(KEYS_ID)
            .hint("Such as data.orderId. The header is left out where the event has nothing there."),
    ],
};

pub(crate) const CLAUSES: RowList = RowList {
    name: "advancedFilters",
    noun: "clause",
    most: FILTERS_MAX,
    rows: &[
        Row::line("key", "Key").mono().suggesting(KEYS_ID),
        Row::line("operatorType", "Operator"),
        Row::lines("values", "Values", 2),
    ],
};

const ENDPOINT: &[Row] = &[
    Row::url(URL, "Endpoint URL").unset("Has a query, which is not shown").suggesting(INSPECTORS_ID),
    Row::tick("skipValidation", "Skip validation")
        .hint("Only for a webhook of your own: it is not asked whether it wants events."),
];
const TYPES: Row = Row::lines("includedEventTypes", "Event types", 3).unset("All")
    .hint("One per line, in their exact spelling. Empty takes every type.");
const REQUESTS: &[Row] = &[
    Row::whole("maxEventsPerBatch", "Events per request").range(1, BATCH_EVENTS_MAX)
        .hint("1 sends every event alone."),
    Row::whole("preferredBatchSizeInKilobytes", "Preferred size of a request in KiB").range(1, BATCH_KILOBYTES_MAX)
        .hint("A bigger event still goes, alone."),
    Row::whole("responseDeadlineInSeconds", "Seconds to answer").range(1, RESPONSE_DEADLINE_S_MAX).unset("Default")
        .hint("Empty leaves it to the setting delivery.response_deadline_s."),
    Row::whole("maxRequestsInFlight", "Requests at once").range(1, IN_FLIGHT_OWN_MAX).unset("Default")
        .hint("Empty leaves it to the setting delivery.in_flight_per_subscription."),
    Row::decimal("maxRequestsPerSecond", "Requests per second").unset("No limit")
        .hint("Such as 5 or 0.5. Empty sends as fast as the webhook answers."),
];
const LOCK: Row = Row::whole("receiveLockDurationInSeconds", "Seconds that a receiver holds an event")
    .range(*RECEIVE_LOCK_SECONDS.start(), *RECEIVE_LOCK_SECONDS.end())
    .hint("Who needs longer renews the lock; when it lapses, the event waits for a receiver again.");
const SCHEDULE: Row = Row::words("schedule", "Waits between attempts").unset("Published schedule")
    .hint("ISO 8601, separated by commas, such as PT10S, PT1M, PT1H; the last one repeats. Empty follows the \
        published schedule.");
const ON_GONE: Row = Row::tick("disableOnGone", "Disable it when the webhook answers 410");
const COUNT: Row = Row::whole("maxDeliveryCount", "Attempts").range(1, NAMESPACE_ATTEMPTS_MAX)
    .hint("The first one is included.");
const LIFE: Row = Row::line(TIME_TO_LIVE, "Time to live").mono().unset("As long as the topic keeps events")
    .hint("ISO 8601, in whole minutes, such as PT4H or P1D. Empty is as long as the topic keeps events.");
const CREDENTIALS: &[Row] = &[
    Row::choice("authentication.type", "Authentication", AUTHENTICATION),
    Row::line("authentication.username", "User name").only("authentication.type", &["Basic"]),
    Row::password("authentication.password", "Password").only("authentication.type", &["Basic"])
        .hint("It is not shown again."),
    Row::secret("authentication.token", "Token").only("authentication.type", &["Bearer"])
        .hint("It is not shown again."),
    Row::url("authentication.tokenUrl", "Token URL").only("authentication.type", &["ClientCredentials"])
        .hint("Where the authorization server hands out tokens."),
    Row::line("authentication.clientId", "Client id").only("authentication.type", &["ClientCredentials"]).mono(),
    Row::password("authentication.clientSecret", "Client secret").only("authentication.type", &["ClientCredentials"])
        .hint("It is not shown again."),
    Row::line("authentication.scope", "Scope").only("authentication.type", &["ClientCredentials"]).mono(),
    Row::line("authentication.audience", "Audience").only("authentication.type", &["ClientCredentials"]).mono()
        .hint("Some servers want to know for whom a token is."),
    Row::choice("authentication.sentIn", "The client's secret is sent", SECRET_PLACES)
        .only("authentication.type", &["ClientCredentials"]),
    Row::pem("clientCertificate.certificate", "Client certificate (mTLS)")
        .hint("PEM, with its chain. Empty shows none."),
    Row::key("clientCertificate.key", "Private key of the certificate")
        .hint("PEM, without a pass phrase. It is not shown again."),
    Row::pem("certificateAuthorities", "Certificate authorities")
        .hint("PEM. They are trusted besides the system's, for this webhook alone."),
];
const SIGNING: &[Row] = &[
    Row::tick(SIGN, "Sign every request (Standard Webhooks)").apart()
        .hint("A secret is made, and shown once after the subscription is created; the receiver checks with it that \
            requests are genuine."),
    Row::secret(SIGNING_SECRET, "Signing secret of your own").apart()
        .hint("whsec_ and 24 to 64 bytes in base64. Empty has one made if the box is ticked."),
];
const STORAGE: &[Row] = &[
    Row::choice(DEAD_LETTERS, "On final failure", FATES).apart(),
    Row::line("blobContainerName", "Container").only(DEAD_LETTERS, &[DIRECTORY, S3, AZURE]).mono()
        .hint("3 to 63 lower-case letters, digits and inner hyphens: a folder of the directory, or the bucket or \
            container in the storage."),
    Row::url("storage.endpointUrl", "Storage endpoint").only(DEAD_LETTERS, &[S3, AZURE]).unset("Public cloud")
        .hint("Such as http://minio.internal:9000. Empty calls Amazon's or Azure's own."),
    Row::line("storage.region", "Region").only(DEAD_LETTERS, &[S3]).mono().hint("Empty means us-east-1."),
    Row::line("storage.accessKeyId", "Access key id").only(DEAD_LETTERS, &[S3]).mono(),
    Row::secret("storage.secretAccessKey", "Secret access key").only(DEAD_LETTERS, &[S3])
        .hint("It is not shown again."),
    Row::line("storage.accountName", "Storage account").only(DEAD_LETTERS, &[AZURE]).mono(),
    Row::secret("storage.accountKey", "Account key").only(DEAD_LETTERS, &[AZURE]).hint("It is not shown again."),
    Row::secret("storage.sasToken", "SAS token").only(DEAD_LETTERS, &[AZURE]).hint("In the place of an account key."),
];
const GENERAL: Fold = fold("fold-notes", "Labels and expiration", &[part("", &[
    Row::words("labels", "Labels").hint("Separated by commas."),
    Row::moment("expirationTimeUtc", "Expires at").unset("Never"),
])]);

pub(super) static CUSTOM: Layout = Layout {
    constants: &[("destination.endpointType", "WebHook")],
    webhook: Some("destination.properties"),
    dead_letters: "deadLetterDestination",
    clauses: "filter.advancedFilters",
    first: section("Destination", &[part("destination.properties", ENDPOINT)]),
    filter: section("Filter", &[part("filter", &[
        TYPES,
        Row::line("subjectBeginsWith", "Subject begins with").mono().unset("Anything"),
        Row::line("subjectEndsWith", "Subject ends with").mono().unset("Anything"),
        Row::tick("isSubjectCaseSensitive", "Case-sensitive subject"),
        Row::tick("enableAdvancedFilteringOnArrays", "Advanced filters look into arrays"),
    ])]),
    folds: &[
        fold("fold-delivery", "Delivery", &[
            part("", &[Row::choice(SCHEMA, "Delivery schema", SCHEMAS)]),
            part("destination.properties", REQUESTS),
        ]),
        fold("fold-retries", "Retries", &[
            part("retryPolicy", &[
                Row::whole("maxDeliveryAttempts", "Attempts").range(1, ATTEMPTS_MAX)
                    .hint("The first one is included."),
                Row::whole("eventTimeToLiveInMinutes", "Time to live in minutes").range(1, TIME_TO_LIVE_MINUTES_MAX)
                    .hint("From the publishing."),
                SCHEDULE,
            ]),
            part("", &[ON_GONE]),
        ]),
        fold("fold-headers", "Custom headers", &[]).with_headers(),
        fold("fold-credentials", "Credentials", &[part("destination.properties", CREDENTIALS)]),
        fold("fold-signing", "Signing", &[part("destination.properties", SIGNING)]).only_new(),
        fold("fold-dead-letters", "Dead letters", &[part("deadLetterDestination.properties", STORAGE)]),
        GENERAL,
    ],
};

pub(super) static PUSH: Layout = Layout {
    constants: &[
        ("deliveryConfiguration.deliveryMode", "Push"),
        ("deliveryConfiguration.push.destination.endpointType", "WebHook"),
    ],
    webhook: Some("deliveryConfiguration.push.destination.properties"),
    dead_letters: "deliveryConfiguration.push.deadLetterDestinationWithResourceIdentity.deadLetterDestination",
    clauses: "filtersConfiguration.filters",
    first: section("Destination", &[part("deliveryConfiguration.push.destination.properties", ENDPOINT)]),
    filter: IN_NAMESPACE,
    folds: &[
        fold("fold-delivery", "Delivery", &[part("deliveryConfiguration.push.destination.properties", REQUESTS)]),
        fold("fold-retries", "Retries", &[
            part("deliveryConfiguration.push", &[COUNT, LIFE, SCHEDULE]),
            part("", &[ON_GONE]),
        ]),
        fold("fold-headers", "Custom headers", &[]).with_headers(),
        fold("fold-credentials", "Credentials",
            &[part("deliveryConfiguration.push.destination.properties", CREDENTIALS)]),
        fold("fold-signing", "Signing",
            &[part("deliveryConfiguration.push.destination.properties", SIGNING)]).only_new(),
        fold("fold-dead-letters", "Dead letters", &[part("deliveryConfiguration.push\
            .deadLetterDestinationWithResourceIdentity.deadLetterDestination.properties", STORAGE)]),
        GENERAL,
    ],
};

pub(super) static QUEUE: Layout = Layout {
    constants: &[("deliveryConfiguration.deliveryMode", "Queue")],
    webhook: None,
    dead_letters: "deliveryConfiguration.queue.deadLetterDestinationWithResourceIdentity.deadLetterDestination",
    clauses: "filtersConfiguration.filters",
    first: section("Receiving", &[part("deliveryConfiguration.queue", &[LOCK])]),
    filter: IN_NAMESPACE,
    folds: &[
        fold("fold-retries", "Retries", &[part("deliveryConfiguration.queue", &[COUNT, LIFE])]),
        fold("fold-dead-letters", "Dead letters", &[part("deliveryConfiguration.queue\
            .deadLetterDestinationWithResourceIdentity.deadLetterDestination.properties", STORAGE)]),
        GENERAL,
    ],
};

const IN_NAMESPACE: RowSection = section("Filter", &[part("filtersConfiguration", &[TYPES])]);
