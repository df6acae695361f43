//! Fields of the form become definitions, and what is wrong is told by its field.

use std::time::Duration;

use super::*;
use crate::base::Timestamp;
use crate::model::access::Secret;
use crate::model::blob_storage::{AzureAccess, S3Account};
use crate::model::credentials::{Authentication, Credentials, SecretPlace};
use crate::model::destination::{AttributeValue, Destination};
use crate::model::limits::ATTEMPTS_MAX;
use crate::model::pace::{Rate, ReceiverLimits};
use crate::model::topic::InputSchema;

const CONTEXT: SubscriptionContext<'_> = SubscriptionContext {
    input_schema: &InputSchema::EventGridSchema,
    event_retention: None,
    now: Timestamp::from_ms(1_700_000_000_000),
    replaces: None,
    require_https: false,
};

fn draft(form: Form) -> SubscriptionDraft {
    SubscriptionDraft::default().sent(form)
}

type Fields<'a> = &'a [(&'a str, &'a str)];

fn form(fields: Fields<'_>) -> Form {
    let all = [(URL, "https://shop.example/events?code=secret")];
    Form::of_pairs(
        all.iter()
            .filter(|(name, _)| fields.iter().all(|field| field.0 != *name))
            .chain(fields),
    )
}

fn define(fields: Fields<'_>) -> Result<SubscriptionDefinition, Vec<FormError>> {
    draft(form(fields)).define(None, &CONTEXT)
}

fn change(
    current: &SubscriptionDefinition,
    fields: Fields<'_>,
) -> Result<SubscriptionDefinition, Vec<FormError>> {
    draft(Form::of_pairs(fields.iter())).define(Some(current), &CONTEXT)
}

/// The fields at fault.
fn at_fault(fields: Fields<'_>, form_errors: &[FormError]) -> Vec<String> {
    let draft = draft(form(fields)).with_faults(form_errors.to_vec());
    let template = include_str!("../../../../../templates/subscription_fields.html");
    let names = template.split("(form, \"").skip(1);
    let names = names.filter_map(|rest| rest.split('"').next());
    let headers = ["name", "type", "properties.value", "properties.sourceField"];
    let headers = headers.map(|part| format!("{}[0].{part}", HEADERS.list));
    let names = names.chain(headers.iter().map(String::as_str));
    let names = names.chain([CLAUSES.list]);
    let at_fault = names.filter(|name| !draft.field(name, "", "", "").is_empty());
    at_fault.map(str::to_owned).collect()
}

#[test]
fn a_queue_takes_the_place_of_a_webhook_and_back() {
    const KIND: &str = "destination.endpointType";
    const ID: &str = "destination.properties.resourceId";
    let header = "deliveryAttributeMappings[0]";
    let header = [
        (format!("{header}.name"), "SessionId"),
        (format!("{header}.type"), "Dynamic"),
        (format!("{header}.properties.sourceField"), "subject"),
    ];
    let mut fields = vec![
        (KIND, "ServiceBusQueue"),
        (ID, "jobs"),
        ("skipValidation", "on"),
    ];
    fields.extend(header.iter().map(|(name, value)| (name.as_str(), *value)));
    let queue = define(&fields).expect("a definition");
    let Destination::ServiceBusQueue(to) = &queue.destination else {
        panic!("{queue:?}");
    };
    assert_eq!(to.entity.as_str(), "jobs");
    assert_eq!(to.attribute_mappings.len(), 1);
    let webhook = change(&queue, &[(KIND, "WebHook"), (URL, "https://h/")]).expect("a definition");
    assert!(webhook.destination.endpoint_url().is_some());
    let fields = [(KIND, "ServiceBusTopic"), (ID, "a b")];
    let form_errors = define(&fields).expect_err("a fault");
    assert_eq!(at_fault(&fields, &form_errors), [ID]);
}

#[test]
fn a_blank_form_with_a_url_takes_everything_by_default() {
    let definition = define(&[]).expect("a definition");
    assert_eq!(definition.filter.included_event_types, None);
    assert_eq!(definition.retry_policy.attempts_max, ATTEMPTS_MAX);
    assert_eq!(definition.dead_letter, DeadLetterDestination::BuiltInQueue);
    assert_eq!(definition.expires_at, None);
}

#[test]
fn what_is_wrong_is_told_by_its_field() {
    let static_header = |name| {
        vec![
            ("deliveryAttributeMappings[0].name", name),
            ("deliveryAttributeMappings[0].type", "Static"),
        ]
    };
    let s3 = |field, value| {
        vec![
            ("deadLetterDestination", "S3"),
            ("blobContainerName", "dead"),
            (field, value),
            ("storage.secretAccessKey", "hush"),
        ]
    };
    let basic = ("authentication.type", "Basic");
    let bearer = ("authentication.type", "Bearer");
    let value = ("deliveryAttributeMappings[0].properties.value", "x");
    for (fields, at) in [
        (vec![(URL, "no url")], URL),
        (vec![("maxEventsPerBatch", "many")], "maxEventsPerBatch"),
        (
            vec![("preferredBatchSizeInKilobytes", "9999")],
            "preferredBatchSizeInKilobytes",
        ),
        (vec![("maxDeliveryAttempts", "31")], "maxDeliveryAttempts"),
        (
            vec![("eventTimeToLiveInMinutes", "0")],
            "eventTimeToLiveInMinutes",
        ),
        (
            vec![("eventDeliverySchema", "CustomInputSchema")],
            "eventDeliverySchema",
        ),
        (
            vec![("expirationTimeUtc", "2020-01-01T00:00")],
            "expirationTimeUtc",
        ),
        (vec![("advancedFilters", "{}")], "advancedFilters"),
        (vec![("advancedFilters", "{")], "advancedFilters"),
        (
            vec![("responseDeadlineInSeconds", "301")],
            "responseDeadlineInSeconds",
        ),
        (vec![("maxRequestsInFlight", "0")], "maxRequestsInFlight"),
        (
            vec![("maxRequestsPerSecond", "fast")],
            "maxRequestsPerSecond",
        ),
        (vec![("maxRequestsPerSecond", "0")], "maxRequestsPerSecond"),
        (vec![("schedule", "10")], "schedule"),
        (vec![("schedule", "PT0S")], "schedule"),
        (
            vec![("authentication.type", "Kerberos")],
            "authentication.type",
        ),
        (
            vec![basic, ("authentication.password", "hush")],
            "authentication.username",
        ),
        (
            vec![basic, ("authentication.username", "ann")],
            "authentication.password",
        ),
        (
            vec![bearer, ("authentication.token", "a b")],
            "authentication.token",
        ),
        (
            vec![("clientCertificate.certificate", "no PEM")],
            "clientCertificate.key",
        ),
        (
            vec![
                ("clientCertificate.certificate", "no PEM"),
                ("clientCertificate.key", "none"),
            ],
            "clientCertificate.certificate",
        ),
        (
            vec![("clientCertificate.key", "none")],
            "clientCertificate.certificate",
        ),
        (
            vec![("certificateAuthorities", "no PEM")],
            "certificateAuthorities",
        ),
        (vec![(SIGNING_SECRET, "whsec_short")], SIGNING_SECRET),
        (
            [static_header("Host"), vec![value]].concat(),
            "deliveryAttributeMappings[0].name",
        ),
        (
            [static_header(""), vec![value]].concat(),
            "deliveryAttributeMappings[0].name",
        ),
        (
            static_header("X"),
            "deliveryAttributeMappings[0].properties.value",
        ),
        (
            vec![
                ("deliveryAttributeMappings[0].name", "X"),
                ("deliveryAttributeMappings[0].type", "Random"),
            ],
            "deliveryAttributeMappings[0].type",
        ),
        (
            vec![
                ("deliveryAttributeMappings[0].name", "X"),
                ("deliveryAttributeMappings[0].type", "Dynamic"),
            ],
            "deliveryAttributeMappings[0].properties.sourceField",
        ),
        (
            [
                static_header("Authorization"),
                vec![value, bearer, ("authentication.token", "x")],
            ]
            .concat(),
            "authentication.type",
        ),
        (
            vec![
                ("deadLetterDestination", "directory"),
                ("blobContainerName", "No!"),
            ],
            "blobContainerName",
        ),
        (s3("storage.region", "eu"), "storage.accessKeyId"),
        (
            [
                s3("storage.accessKeyId", "id"),
                vec![("storage.endpointUrl", "minio")],
            ]
            .concat(),
            "storage.endpointUrl",
        ),
        (
            vec![
                ("deadLetterDestination", "AzureBlob"),
                ("blobContainerName", "dead"),
                ("storage.accountName", "shop"),
                ("storage.accountKey", "no base64"),
            ],
            "storage.accountKey",
        ),
    ] {
        let form_errors = define(&fields).expect_err(at);
        assert_eq!(
            at_fault(&fields, &form_errors),
            [at],
            "{fields:?} {form_errors:?}"
        );
    }
    let fields = [
        ("maxDeliveryAttempts", "31"),
        ("schedule", "10"),
        ("advancedFilters", "{"),
    ];
    let form_errors = define(&fields).expect_err("three faults");
    assert_eq!(at_fault(&fields, &form_errors).len(), 3, "{form_errors:?}");
}

#[test]
fn waits_and_paces_of_ones_own_come_back() {
    let fields = [
        ("responseDeadlineInSeconds", "60"),
        ("maxRequestsInFlight", "2"),
        ("maxRequestsPerSecond", "0.5"),
        ("splitBatchOnError", "on"),
        ("schedule", "PT1S, PT1M"),
        ("disableOnGone", "on"),
    ];
    let definition = define(&fields).expect("a definition");
    let expected = ReceiverLimits {
        response_deadline: Some(Duration::from_secs(60)),
        in_flight_max: Some(2),
        rate: Rate::per_1000_s(500),
    };
    assert_eq!(definition.destination.pace(), &expected);
    assert!(definition.destination.batch().split_on_error);
    let waits = [1, 60].map(Duration::from_secs);
    assert_eq!(definition.retry_policy.own_waits, waits);
    assert!(definition.options.disable_on_gone);
}

fn credentials(definition: &SubscriptionDefinition) -> &Credentials {
    match &definition.destination {
        Destination::WebHook(webhook) => &webhook.credentials,
        Destination::ServiceBusQueue(_)
        | Destination::ServiceBusTopic(_)
        | Destination::Queue(_) => panic!("only webhooks have credentials"),
    }
}

#[test]
fn each_kind_of_authentication_is_read_and_keeps_its_secret() {
    let client = [
        ("authentication.type", "ClientCredentials"),
        ("authentication.tokenUrl", "https://login.test/token"),
        ("authentication.clientId", "shop"),
        ("authentication.scope", "events"),
        ("authentication.audience", ""),
        ("authentication.sentIn", "Body"),
    ];
    let basic = [
        ("authentication.type", "Basic"),
        ("authentication.username", "ann"),
    ];
    for (fields, secret) in [
        (&basic[..], ("authentication.password", " a b ")),
        (
            &[("authentication.type", "Bearer")][..],
            ("authentication.token", "hush"),
        ),
        (&client[..], ("authentication.clientSecret", "hush ")),
    ] {
        let left_over = ("authentication.token", "typed before");
        let given = [fields, &[secret, left_over]].concat();
        let first = define(&given).expect("a definition");
        let kept = match credentials(&first).authentication.as_ref().expect("one") {
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
        let second = change(&first, fields).expect("a definition");
        assert_eq!(credentials(&second), credentials(&first));
        let third = change(&first, &[]).expect("a definition");
        assert_eq!(credentials(&third).authentication, None);
        let form_errors = define(fields).expect_err("no secret");
        assert_eq!(at_fault(fields, &form_errors), [secret.0]);
    }
}

#[test]
fn headers_of_both_kinds_come_back_and_a_secret_stays() {
    let name = |name| ("deliveryAttributeMappings[0].name", name);
    let fields = [
        ("deliveryAttributeMappings[0].type", "Static"),
        ("deliveryAttributeMappings[0].properties.value", " hush "),
        ("deliveryAttributeMappings[0].properties.isSecret", "on"),
        ("deliveryAttributeMappings[1].name", "X-Order"),
        ("deliveryAttributeMappings[1].type", "Dynamic"),
        ("deliveryAttributeMappings[1].properties.value", "forgotten"),
        (
            "deliveryAttributeMappings[1].properties.sourceField",
            "data.id",
        ),
    ];
    let values = |definition: &SubscriptionDefinition| -> Vec<AttributeValue> {
        let mappings = definition.destination.attribute_mappings();
        mappings.iter().map(|each| each.value.clone()).collect()
    };
    let first = define(&[&[name("X-Key")], &fields[..]].concat()).expect("a definition");
    let value = Secret::new(" hush ");
    let expected = [
        AttributeValue::Static {
            value,
            is_secret: true,
        },
        AttributeValue::Dynamic {
            source_field: "data.id".to_owned(),
        },
    ];
    assert_eq!(values(&first), expected);
    let kept = [&[name("x-key"), fields[0]], &fields[2..]].concat();
    assert_eq!(
        values(&change(&first, &kept).expect("a definition")),
        expected
    );
    assert_eq!(values(&change(&first, &[]).expect("a definition")), []);
    let shown = [name("X-Key"), fields[0]];
    let form_errors = change(&first, &shown).expect_err("no value");
    assert_eq!(
        at_fault(&shown, &form_errors),
        ["deliveryAttributeMappings[0].properties.value"]
    );
}

#[test]
fn dead_letters_go_where_the_choice_says() {
    let choose = |choice| [(DEAD_LETTERS, choice), ("blobContainerName", "dead")];
    let directory = DeadLetterDestination::StorageBlob {
        resource_id: RESOURCE_ID.to_owned(),
        container: "dead".to_owned(),
        storage: BlobStorage::Directory,
    };
    for (choice, expected) in [
        (KEEP, DeadLetterDestination::BuiltInQueue),
        ("", DeadLetterDestination::BuiltInQueue),
        (DROP, DeadLetterDestination::Drop),
        (DIRECTORY, directory),
    ] {
        let definition = define(&choose(choice)).expect(choice);
        assert_eq!(definition.dead_letter, expected);
        let again = change(&definition, &choose(choice)).expect(choice);
        assert_eq!(again.dead_letter, expected);
        let kept = change(&definition, &choose(KEEP)).expect(choice);
        assert_eq!(kept.dead_letter, DeadLetterDestination::BuiltInQueue);
    }
}

fn storage(definition: &SubscriptionDefinition) -> &BlobStorage {
    match &definition.dead_letter {
        DeadLetterDestination::StorageBlob { storage, .. } => storage,
        DeadLetterDestination::BuiltInQueue | DeadLetterDestination::Drop => panic!("no storage"),
    }
}

#[test]
fn a_secret_of_storage_stays_as_long_as_its_account_does() {
    let s3 = |id| {
        [
            (DEAD_LETTERS, S3),
            ("blobContainerName", "dead"),
            ("storage.endpointUrl", "http://minio.test:9000"),
            ("storage.accessKeyId", id),
        ]
    };
    let first = [&s3("id")[..], &[("storage.secretAccessKey", "hush")]].concat();
    let first = define(&first).expect("a definition");
    let BlobStorage::S3(account) = storage(&first) else {
        panic!("no S3");
    };
    let S3Account {
        secret_access_key, ..
    } = &**account;
    assert_eq!(secret_access_key, &Secret::new("hush"));
    let second = change(&first, &s3("id")).expect("a definition");
    assert_eq!(storage(&second), storage(&first));
    let form_errors = change(&first, &s3("other")).expect_err("no secret");
    assert_eq!(
        at_fault(&s3("other"), &form_errors),
        ["storage.secretAccessKey"]
    );

    let azure = [
        (DEAD_LETTERS, AZURE),
        ("blobContainerName", "dead"),
        ("storage.accountName", "shop"),
    ];
    let first = [&azure[..], &[("storage.accountKey", "aHVzaA==")]].concat();
    let first = define(&first).expect("a definition");
    let second = change(&first, &azure).expect("a definition");
    assert_eq!(storage(&second), storage(&first));
    let third = [&azure[..], &[("storage.sasToken", "sv=1")]].concat();
    let third = change(&first, &third).expect("a definition");
    let BlobStorage::AzureBlob(account) = storage(&third) else {
        panic!("no Azure");
    };
    assert_eq!(account.access, AzureAccess::SasToken(Secret::new("sv=1")));
}

#[test]
fn a_change_keeps_what_is_not_shown() {
    let current = define(&[
        (DEAD_LETTERS, DROP),
        ("authentication.type", "Bearer"),
        ("authentication.token", "hush"),
        (SIGNING_SECRET, "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"),
    ]);
    let current = current.expect("a definition");
    assert_eq!(current.dead_letter, DeadLetterDestination::Drop);
    let bearer = ("authentication.type", "Bearer");
    let definition = change(
        &current,
        &[(DEAD_LETTERS, KEEP), ("labels", "a, b"), bearer],
    );
    let definition = definition.expect("a definition");
    assert_eq!(definition.destination, current.destination);
    assert_eq!(definition.dead_letter, DeadLetterDestination::BuiltInQueue);
    assert_eq!(definition.options.labels, ["a", "b"]);
}
