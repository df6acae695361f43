//! The definition of an event subscription as flags.

use std::path::Path;

use anyhow::ensure;
use clap::{Args, ValueEnum};
use serde_json::{Map, Value, json};

use crate::app::cli::credentials::{CredentialArgs, secret_header};
use crate::app::cli::filter::{FilterArgs, changed, name_and_value, not_empty};
use crate::app::cli::request::given;
use crate::app::cli::schema::SchemaArgument;
use crate::app::files;
use crate::model::access::Secret;
use crate::model::limits::MANAGEMENT_BYTES_MAX;

/// Where events go, in the words of Azure's command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum EndpointType {
    #[value(name = "webhook")]
    WebHook,
    #[value(name = "servicebusqueue")]
    ServiceBusQueue,
    #[value(name = "servicebustopic")]
    ServiceBusTopic,
}

impl EndpointType {
    fn name(self) -> &'static str {
        match self {
            Self::WebHook => "WebHook",
            Self::ServiceBusQueue => "ServiceBusQueue",
            Self::ServiceBusTopic => "ServiceBusTopic",
        }
    }
}

/// The properties of an event subscription, except for its filter. What is not given stays as it is.
#[derive(Args, Clone, Debug, Default)]
#[group(id = "definition", multiple = true)]
pub(super) struct DefinitionArgs {
    /// URL of the webhook; of a queue or a Service Bus topic its name or resource id
    #[arg(long, value_name = "URL", help_heading = "Destination")]
    endpoint: Option<String>,
    /// Type of the endpoint [default: as it was; a webhook at first]
    #[arg(
        long,
        value_enum,
        ignore_case = true,
        requires = "endpoint",
        help_heading = "Destination"
    )]
    endpoint_type: Option<EndpointType>,
    /// Let receivers pull the events instead of sending them; in a namespace
    #[arg(long, conflicts_with = "endpoint", help_heading = "Destination")]
    queue: bool,
    /// Seconds that a receiver which pulls has an event locked, 60 to 300
    #[arg(long, value_name = "SECONDS", help_heading = "Destination")]
    lock_duration: Option<u32>,
    /// Delivery schema [default: the input schema of the topic]
    #[arg(long, value_enum, help_heading = "Destination")]
    schema: Option<SchemaArgument>,
    /// Skip the webhook handshake; for webhooks of your own
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "true|false", help_heading = "Destination")]
    skip_validation: Option<bool>,
    /// Attempts per event, 1 to 30; in a namespace up to 10
    #[arg(long, value_name = "N", help_heading = "Retry")]
    max_attempts: Option<u32>,
    /// Minutes after which an event is dead-lettered, 1 to 1440; in a namespace as long as its topic
    /// keeps events
    #[arg(long, value_name = "MINUTES", help_heading = "Retry")]
    time_to_live: Option<u32>,
    /// Retry schedule in ISO 8601, such as PT10S,PT1M,PT1H, the last of which repeats;
    /// "published" for those of Azure
    #[arg(
        long,
        value_name = "WAITS",
        value_delimiter = ',',
        help_heading = "Retry"
    )]
    schedule: Vec<String>,
    /// Seconds that the webhook has to answer, 1 to 300
    #[arg(long, value_name = "SECONDS", help_heading = "Delivery")]
    response_deadline: Option<u32>,
    /// Requests in flight at once, 1 to 1024
    #[arg(long, value_name = "N", help_heading = "Delivery")]
    max_in_flight: Option<u32>,
    /// Requests per second, such as 5 or 0.5
    #[arg(long, value_name = "RATE", help_heading = "Delivery")]
    max_rate: Option<f64>,
    /// Disable the subscription when the webhook answers 410 (Gone)
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "true|false", help_heading = "Retry")]
    disable_on_gone: Option<bool>,
    /// Collect events without delivering them
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "true|false", help_heading = "Delivery")]
    paused: Option<bool>,
    /// Neither collect nor deliver events
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "true|false", help_heading = "Delivery")]
    disabled: Option<bool>,
    /// Most events in one request, 1 to 5000
    #[arg(long, value_name = "N", help_heading = "Batching")]
    max_events_per_batch: Option<u32>,
    /// Preferred size of a request in kilobytes, 1 to 1024
    #[arg(long, value_name = "KB", help_heading = "Batching")]
    preferred_batch_size: Option<u32>,
    /// After an answer of 400 or 413, deliver the events of a batch again in halves, down to single ones
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "true|false", help_heading = "Batching")]
    split_batch_on_error: Option<bool>,
    /// Header on every delivery, may be repeated
    #[arg(long = "header", value_name = "NAME=VALUE", value_parser = name_and_value, help_heading = "Headers")]
    headers: Vec<(String, String)>,
    /// Header with a secret value, which is never shown again; may be repeated
    #[arg(long = "secret-header", value_name = "NAME=VALUE", value_parser = name_and_value, help_heading = "Headers")]
    secret_headers: Vec<(String, String)>,
    /// Header whose secret value is in a file; may be repeated
    #[arg(long = "secret-header-file", value_name = "NAME=FILE", value_parser = secret_header, help_heading = "Headers")]
    secret_header_files: Vec<(String, Secret)>,
    /// Header with a value from the event, such as X-Order=data.orderId, may be repeated
    #[arg(long = "dynamic-header", value_name = "NAME=PATH", value_parser = name_and_value, help_heading = "Headers")]
    dynamic_headers: Vec<(String, String)>,
    /// Label, may be repeated
    #[arg(
        long = "label",
        value_name = "TEXT",
        help_heading = "Labels and expiration"
    )]
    labels: Vec<String>,
    /// Moment from which on no more events match, in RFC 3339
    #[arg(long, value_name = "MOMENT", help_heading = "Labels and expiration")]
    expires_at: Option<String>,
    /// Drop events that cannot be delivered instead of keeping them as dead letters
    #[arg(long, help_heading = "Dead letters")]
    drop_dead_letters: bool,
    /// Export dead letters to this container, in the server's directory unless there is other storage
    #[arg(
        long,
        value_name = "NAME",
        conflicts_with = "drop_dead_letters",
        help_heading = "Dead letters"
    )]
    dead_letter_container: Option<String>,
    /// File with JSON that says in which storage the container is, with its credentials
    #[arg(long, value_name = "FILE", requires = "dead_letter_container", value_parser = storage, help_heading = "Dead letters")]
    dead_letter_storage: Option<Value>,
}

fn storage(file: &str) -> Result<Value, String> {
    let text = files::text(Path::new(file), MANAGEMENT_BYTES_MAX)?;
    serde_json::from_str(&text).map_err(|error| format!("is not JSON: {error}"))
}

impl DefinitionArgs {
    /// The properties that the flags touch, those of `filter` and `credentials` included, each whole:
    /// the `current` ones with the changes made.
    pub(super) fn properties(
        &self,
        filter: &FilterArgs,
        credentials: &CredentialArgs,
        current: &Value,
    ) -> Map<String, Value> {
        let mut retry_policy = given(&json!({
            "maxDeliveryAttempts": self.max_attempts,
            "eventTimeToLiveInMinutes": self.time_to_live,
        }));
        retry_policy.extend(self.schedule());
        let mut properties = given(&json!({
            "destination": self.destination(credentials, &current["destination"]),
            "filter": filter.changed(&current["filter"]),
            "retryPolicy": changed(&current["retryPolicy"], retry_policy),
            "eventDeliverySchema": self.schema.map(SchemaArgument::delivery),
        }));
        properties.extend(self.properties_of_both_kinds());
        let dead_letters = self.dead_letters();
        properties.extend(dead_letters.map(|each| ("deadLetterDestination".to_owned(), each)));
        properties
    }

    /// Left out, dead letters are kept (rule A).
    fn dead_letters(&self) -> Option<Value> {
        if self.drop_dead_letters {
            return Some(json!({ "endpointType": "Drop" }));
        }
        let container = self.dead_letter_container.as_ref()?;
        let mut blob = json!({ "blobContainerName": container });
        match &self.dead_letter_storage {
            Some(storage) => blob["storage"] = storage.clone(),
            // The directory needs no id, but Azure's form does.
            None => blob["resourceId"] = json!("everpost"),
        }
        Some(json!({ "endpointType": "StorageBlob", "properties": blob }))
    }

    /// Returns the properties for a subscription of a namespace topic, where each property of `push` can change alone.
    pub(super) fn properties_in_namespace(
        &self,
        filter: &FilterArgs,
        credentials: &CredentialArgs,
        current: &Value,
    ) -> anyhow::Result<Map<String, Value>> {
        ensure!(
            matches!(self.schema, None | Some(SchemaArgument::Cloudevents)),
            "in a namespace everything is a CloudEvent; leave --schema out"
        );
        let delivery = &current["deliveryConfiguration"];
        let pulls = self.queue || delivery["deliveryMode"] == "Queue";
        let destination = self.destination(credentials, &delivery["push"]["destination"]);
        ensure!(
            !pulls || (destination.is_none() && self.schedule.is_empty()),
            "the events of this subscription are pulled, so it has no webhook"
        );
        ensure!(
            pulls || self.lock_duration.is_none(),
            "--lock-duration is for subscriptions that are pulled, which are made with --queue"
        );
        let mut settings = given(&json!({
            "destination": destination,
            "receiveLockDurationInSeconds": self.lock_duration,
            "maxDeliveryCount": self.max_attempts,
            "eventTimeToLive": self.time_to_live.map(|minutes| format!("PT{minutes}M")),
        }));
        settings.extend(self.schedule());
        settings.extend(self.dead_letters().map(|inner| {
            let wrapped = json!({ "deadLetterDestination": inner });
            (
                "deadLetterDestinationWithResourceIdentity".to_owned(),
                wrapped,
            )
        }));
        let mut properties = self.properties_of_both_kinds();
        if !settings.is_empty() || self.queue {
            let object = if pulls { "queue" } else { "push" };
            let mut delivery = json!({ object: settings });
            if self.queue {
                delivery["deliveryMode"] = json!("Queue");
            }
            properties.insert("deliveryConfiguration".to_owned(), delivery);
        }
        let filters = filter.changed_in_namespace(&current["filtersConfiguration"])?;
        properties.extend(given(&json!({ "filtersConfiguration": filters })));
        Ok(properties)
    }

    /// Rejects flags that mean nothing outside of namespaces.
    pub(super) fn reject_pulling(&self) -> anyhow::Result<()> {
        ensure!(
            !self.queue && self.lock_duration.is_none(),
            "events are pulled from topics of namespaces alone: name one with --namespace"
        );
        Ok(())
    }

    /// Returns the properties that have the same names in a namespace and elsewhere.
    fn properties_of_both_kinds(&self) -> Map<String, Value> {
        given(&json!({
            "labels": not_empty(&self.labels),
            "expirationTimeUtc": self.expires_at,
            "disableOnGone": self.disable_on_gone,
            "paused": self.paused,
            "disabled": self.disabled,
        }))
    }

    fn destination(&self, credentials: &CredentialArgs, current: &Value) -> Option<Value> {
        let before = current["endpointType"].as_str().unwrap_or("WebHook");
        let kind = self.endpoint_type.map_or(before, |kind| kind.name());
        let place = match kind {
            "WebHook" => "endpointUrl",
            _ => "resourceId",
        };
        let mut properties = given(&json!({
            place: self.endpoint,
            "skipValidation": self.skip_validation,
            "maxEventsPerBatch": self.max_events_per_batch,
            "preferredBatchSizeInKilobytes": self.preferred_batch_size,
            "splitBatchOnError": self.split_batch_on_error,
            "responseDeadlineInSeconds": self.response_deadline,
            "maxRequestsInFlight": self.max_in_flight,
            "maxRequestsPerSecond": self.max_rate,
            "deliveryAttributeMappings": not_empty(&self.attribute_mappings()),
        }));
        properties.extend(credentials.properties());
        // What is left out of a destination of the same type stays.
        let is_touched = !properties.is_empty() || kind != before;
        is_touched.then(|| json!({ "endpointType": kind, "properties": properties }))
    }

    fn attribute_mappings(&self) -> Vec<Value> {
        let fixed = |name: &str, value: &str, is_secret: bool| {
            let properties = json!({ "value": value, "isSecret": is_secret });
            json!({ "name": name, "type": "Static", "properties": properties })
        };
        let dynamic = |(name, path): &(String, String)| json!({ "name": name, "type": "Dynamic", "properties": { "sourceField": path } });
        let plain = self
            .headers
            .iter()
            .map(|(name, value)| fixed(name, value, false));
        let secret = self
            .secret_headers
            .iter()
            .map(|(name, value)| fixed(name, value, true));
        let in_files = self
            .secret_header_files
            .iter()
            .map(|(name, value)| fixed(name, value.reveal(), true));
        let dynamic = self.dynamic_headers.iter().map(dynamic);
        plain.chain(secret).chain(in_files).chain(dynamic).collect()
    }

    /// `null` stands for the schedule of Azure.
    fn schedule(&self) -> Option<(String, Value)> {
        let waits = match self.schedule.as_slice() {
            [] => return None,
            [word] if word == "published" => Value::Null,
            waits => json!(waits),
        };
        Some(("schedule".to_owned(), waits))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct CommandLine {
        #[command(flatten)]
        definition: DefinitionArgs,
        #[command(flatten)]
        credentials: CredentialArgs,
        #[command(flatten)]
        filter: FilterArgs,
    }

    fn check(flags: &[&str], current: &Value, expected: &Value) {
        let line = std::iter::once(&"everpost").chain(flags);
        let parsed = CommandLine::try_parse_from(line).unwrap_or_else(|error| panic!("{error}"));
        let (filter, credentials) = (&parsed.filter, &parsed.credentials);
        let properties = Value::Object(parsed.definition.properties(filter, credentials, current));
        assert_eq!(&properties, expected, "{flags:?}");
    }

    #[test]
    fn a_queue_takes_the_place_of_a_webhook_and_keeps_its_type() {
        let webhook = json!({ "destination": { "endpointType": "WebHook", "properties": { "endpointBaseUrl": "http://h/" } } });
        let queue =
            json!({ "endpointType": "ServiceBusQueue", "properties": { "resourceId": "jobs" } });
        let flags = ["--endpoint-type", "ServiceBusQueue", "--endpoint", "jobs"];
        check(&flags, &webhook, &json!({ "destination": queue }));
        let other =
            json!({ "endpointType": "ServiceBusQueue", "properties": { "resourceId": "others" } });
        let current = json!({ "destination": queue });
        check(
            &["--endpoint", "others"],
            &current,
            &json!({ "destination": other }),
        );
    }

    #[test]
    fn a_new_subscription_has_what_the_flags_say() {
        let none = &Value::Null;
        check(&[], none, &json!({}));
        check(
            &[
                "--endpoint",
                "http://h/x?k=1",
                "--event-type",
                "A",
                "--event-type",
                "B",
                "--subject-begins-with",
                "/o",
                "--max-attempts",
                "3",
                "--time-to-live",
                "10",
                "--schema",
                "cloudevents",
                "--label",
                "l",
                "--expires-at",
                "2030-01-01T00:00:00Z",
            ],
            none,
            &json!({
                "destination": { "endpointType": "WebHook", "properties": { "endpointUrl": "http://h/x?k=1" } },
                "filter": { "includedEventTypes": ["A", "B"], "subjectBeginsWith": "/o" },
                "retryPolicy": { "maxDeliveryAttempts": 3, "eventTimeToLiveInMinutes": 10 },
                "eventDeliverySchema": "CloudEventSchemaV1_0",
                "labels": ["l"],
                "expirationTimeUtc": "2030-01-01T00:00:00Z",
            }),
        );
        check(
            &[
                "--schedule",
                "PT1S,PT1M",
                "--response-deadline",
                "60",
                "--max-in-flight",
                "2",
                "--max-rate",
                "0.5",
                "--split-batch-on-error",
                "--disable-on-gone",
                "--paused=false",
                "--disabled",
            ],
            none,
            &json!({
                "destination": { "endpointType": "WebHook", "properties": { "responseDeadlineInSeconds": 60, "maxRequestsInFlight": 2, "maxRequestsPerSecond": 0.5, "splitBatchOnError": true } },
                "retryPolicy": { "schedule": ["PT1S", "PT1M"] },
                "disableOnGone": true,
                "paused": false,
                "disabled": true,
            }),
        );
        check(
            &["--dead-letter-container", "dead"],
            none,
            &json!({ "deadLetterDestination": { "endpointType": "StorageBlob",
                "properties": { "blobContainerName": "dead", "resourceId": "everpost" } } }),
        );
        check(
            &["--schedule", "published"],
            &json!({ "retryPolicy": { "maxDeliveryAttempts": 3, "schedule": ["PT1S"] } }),
            &json!({ "retryPolicy": { "maxDeliveryAttempts": 3, "schedule": null } }),
        );
        check(
            &[
                "--header",
                "X-A=1=2",
                "--secret-header",
                "X-B=s",
                "--dynamic-header",
                "X-C=data.id",
                "--skip-validation",
            ],
            none,
            &json!({ "destination": { "endpointType": "WebHook", "properties": {
                "skipValidation": true,
                "deliveryAttributeMappings": [
                    { "name": "X-A", "type": "Static", "properties": { "value": "1=2", "isSecret": false } },
                    { "name": "X-B", "type": "Static", "properties": { "value": "s", "isSecret": true } },
                    { "name": "X-C", "type": "Dynamic", "properties": { "sourceField": "data.id" } },
                ],
            } } }),
        );
        check(
            &["--no-authentication", "--max-rate", "2"],
            &json!({ "destination": { "properties": { "authentication": { "type": "Bearer" }, "skipValidation": true } } }),
            &json!({ "destination": { "endpointType": "WebHook", "properties": {
                "authentication": null, "maxRequestsPerSecond": 2.0,
            } } }),
        );
        check(
            &["--filter", r#"{"operatorType":"IsNotNull","key":"data.x"}"#],
            none,
            &json!({ "filter": { "advancedFilters": [{ "operatorType": "IsNotNull", "key": "data.x" }] } }),
        );
        check(
            &["--drop-dead-letters"],
            none,
            &json!({ "deadLetterDestination": { "endpointType": "Drop" } }),
        );
    }

    #[test]
    fn an_update_keeps_what_stands_beside_the_change() {
        let current = &json!({
            "destination": { "endpointType": "WebHook", "properties": { "endpointBaseUrl": "http://h/", "skipValidation": true } },
            "filter": { "subjectBeginsWith": "/o", "includedEventTypes": ["A"] },
            "retryPolicy": { "maxDeliveryAttempts": 30, "eventTimeToLiveInMinutes": 1440 },
            "labels": ["l"],
        });
        check(
            &["--max-attempts", "3"],
            current,
            &json!({ "retryPolicy": { "maxDeliveryAttempts": 3, "eventTimeToLiveInMinutes": 1440 } }),
        );
        check(
            &["--event-type", "B"],
            current,
            &json!({ "filter": { "subjectBeginsWith": "/o", "includedEventTypes": ["B"] } }),
        );
        check(
            &["--skip-validation=false"],
            current,
            &json!({ "destination": { "endpointType": "WebHook", "properties": { "skipValidation": false } } }),
        );
    }
}
