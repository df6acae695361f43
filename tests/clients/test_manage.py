"""Managing topics and event subscriptions with Microsoft's own management client."""

import time

import pytest
import requests
from azure.core.credentials import AccessToken, AzureKeyCredential
from azure.core.exceptions import ClientAuthenticationError, HttpResponseError, ResourceNotFoundError
from azure.eventgrid import EventGridEvent, EventGridPublisherClient
from azure.mgmt.eventgrid import EventGridManagementClient
from azure.mgmt.eventgrid.models import (
    DynamicDeliveryAttributeMapping,
    EventSubscription,
    EventSubscriptionFilter,
    EventSubscriptionUpdateParameters,
    NumberGreaterThanAdvancedFilter,
    RetryPolicy,
    StaticDeliveryAttributeMapping,
    StringNotInAdvancedFilter,
    Topic,
    TopicRegenerateKeyRequest,
    TopicUpdateParameters,
    WebHookEventSubscriptionDestination,
)

# The client sends no token over plain HTTP unless each call allows it.
PLAIN = {"enforce_https": False}


class ManagementToken:
    """The appliance's own token in the place of one from Entra."""

    def __init__(self, token):
        self.token = token

    def get_token(self, *_scopes, **_options):
        return AccessToken(self.token, int(time.time()) + 3600)


class Arm:
    """The client, bound to the subscription and resource group that the appliance goes by."""

    def __init__(self, appliance, token=None):
        ids = appliance.create_topic("arm-probe").id.split("/")
        self.subscription_id, self.group = ids[2], ids[4]
        self.client = EventGridManagementClient(
            ManagementToken(token or appliance.token), self.subscription_id, base_url=appliance.url
        )

    def create_topic(self, name, **properties):
        topic = Topic(location="westeurope", **properties)
        operation = self.client.topics.begin_create_or_update(self.group, name, topic, **PLAIN)
        return operation.result()

    def subscriptions_of(self, topic):
        """The operations on the topic's own path, and those on a resource id as the command line of
        Azure uses them, under the same signatures."""
        return [
            OfTopic(self.client.topic_event_subscriptions, [self.group, topic.name]),
            OfTopic(self.client.event_subscriptions, [topic.id]),
        ]


class OfTopic:
    """Event subscriptions of one topic through one of the client's two groups of operations."""

    def __init__(self, operations, place):
        self.operations = operations
        self.place = place

    def __call__(self, operation, *arguments):
        return getattr(self.operations, operation)(*self.place, *arguments, **PLAIN)


@pytest.fixture
def arm(appliance):
    return Arm(appliance)


def test_topics_are_created_read_patched_listed_and_deleted(arm, fresh_name):
    name = fresh_name()

    created = arm.create_topic(name, tags={"team": "shop"})
    assert created.name == name
    assert created.type == "Microsoft.EventGrid/topics"
    assert created.id.endswith(f"/providers/Microsoft.EventGrid/topics/{name}")
    assert created.location == "westeurope"
    assert created.provisioning_state == "Succeeded"
    assert created.input_schema == "EventGridSchema"
    assert created.public_network_access == "Enabled"
    assert created.tags == {"team": "shop"}
    assert name in created.endpoint

    patch = TopicUpdateParameters(tags={"team": "billing"})
    arm.client.topics.begin_update(arm.group, name, patch, **PLAIN).result()
    read = arm.client.topics.get(arm.group, name, **PLAIN)
    assert read.tags == {"team": "billing"}
    assert read.endpoint == created.endpoint

    in_group = arm.client.topics.list_by_resource_group(arm.group, **PLAIN)
    in_subscription = arm.client.topics.list_by_subscription(**PLAIN)
    assert name in [topic.name for topic in in_group]
    assert name in [topic.name for topic in in_subscription]

    arm.client.topics.begin_delete(arm.group, name, **PLAIN).result()
    with pytest.raises(ResourceNotFoundError) as missing:
        arm.client.topics.get(arm.group, name, **PLAIN)
    assert missing.value.error.code.endswith("NotFound")


def test_a_topic_keeps_its_schema(arm, fresh_name):
    created = arm.create_topic(fresh_name(), input_schema="CloudEventSchemaV1_0")

    assert created.input_schema == "CloudEventSchemaV1_0"


def test_bad_names_are_rejected(arm):
    for name in ["ab", "system-topic", "x" * 51]:
        with pytest.raises(HttpResponseError) as rejected:
            arm.create_topic(name)
        assert rejected.value.status_code == 400
        assert name in rejected.value.message


def test_keys_are_listed_and_regenerated_one_by_one(arm, fresh_name):
    topic = arm.create_topic(fresh_name())
    before = arm.client.topics.list_shared_access_keys(arm.group, topic.name, **PLAIN)

    request = TopicRegenerateKeyRequest(key_name="key1")
    operation = arm.client.topics.begin_regenerate_key(arm.group, topic.name, request, **PLAIN)
    after = operation.result()

    assert after.key1 != before.key1
    assert after.key2 == before.key2
    assert publishes(topic, after.key1)
    assert publishes(topic, after.key2)
    assert not publishes(topic, before.key1)


def publishes(topic, key):
    client = EventGridPublisherClient(topic.endpoint, AzureKeyCredential(key))
    event = EventGridEvent(subject="s", event_type="t", data={}, data_version="1")
    try:
        client.send(event)
    except ClientAuthenticationError:
        return False
    return True


def subscription(url, **settings):
    webhook = WebHookEventSubscriptionDestination(
        endpoint_url=url,
        delivery_attribute_mappings=[
            StaticDeliveryAttributeMapping(name="X-Tenant", value="north", is_secret=False),
            StaticDeliveryAttributeMapping(name="X-Secret", value="s3cret", is_secret=True),
            DynamicDeliveryAttributeMapping(name="X-Order", source_field="data.orderId"),
        ],
    )
    defaults = {
        "filter": EventSubscriptionFilter(
            included_event_types=["Order.Paid"],
            subject_begins_with="/orders/",
            advanced_filters=[
                NumberGreaterThanAdvancedFilter(key="data.total", value=100),
                StringNotInAdvancedFilter(key="data.country", values=["XX", "YY"]),
            ],
        ),
        "retry_policy": RetryPolicy(max_delivery_attempts=10, event_time_to_live_in_minutes=240),
        "labels": ["billing"],
    }
    return EventSubscription(destination=webhook, **{**defaults, **settings})


def test_event_subscriptions_live_and_die(arm, receiver, fresh_name):
    topic = arm.create_topic(fresh_name())
    url = receiver.url + "?code=hidden"

    for number, of_topic in enumerate(arm.subscriptions_of(topic)):
        name = f"billing-{number}"

        created = of_topic("begin_create_or_update", name, subscription(url)).result()
        assert created.name == name
        assert created.provisioning_state == "Succeeded"
        assert created.type.endswith("/eventSubscriptions")

        read = of_topic("get", name)
        assert read.topic.lower() == topic.id.lower()
        assert read.destination.endpoint_type == "WebHook"
        assert read.destination.endpoint_base_url == receiver.url
        assert not read.destination.endpoint_url
        assert read.filter.included_event_types == ["Order.Paid"]
        assert read.filter.subject_begins_with == "/orders/"
        assert [f.operator_type for f in read.filter.advanced_filters] == [
            "NumberGreaterThan",
            "StringNotIn",
        ]
        assert read.filter.advanced_filters[0].value == 100
        assert read.retry_policy.max_delivery_attempts == 10
        assert read.retry_policy.event_time_to_live_in_minutes == 240
        assert read.labels == ["billing"]
        assert read.event_delivery_schema == "EventGridSchema"

        assert of_topic("get_full_url", name).endpoint_url == url
        assert [(a.name, a.type) for a in of_topic("get_delivery_attributes", name).value] == [
            ("X-Tenant", "Static"),
            ("X-Secret", "Static"),
            ("X-Order", "Dynamic"),
        ]
        hidden = {a.name: a for a in read.destination.delivery_attribute_mappings}
        assert hidden["X-Tenant"].value == "north"
        assert hidden["X-Secret"].value != "s3cret"

        patch = EventSubscriptionUpdateParameters(labels=["billing", "patched"])
        of_topic("begin_update", name, patch).result()
        patched = of_topic("get", name)
        assert patched.labels == ["billing", "patched"]
        assert patched.filter.subject_begins_with == "/orders/"
        assert of_topic("get_full_url", name).endpoint_url == url

        assert name in names(arm, topic)
        of_topic("begin_delete", name).result()
        assert name not in names(arm, topic)
        with pytest.raises(ResourceNotFoundError):
            of_topic("get", name)


def names(arm, topic):
    """The topic's event subscriptions, after both ways to list them have agreed."""
    of_topic = arm.client.topic_event_subscriptions.list(arm.group, topic.name, **PLAIN)
    by_resource = arm.client.event_subscriptions.list_by_resource(
        arm.group, "Microsoft.EventGrid", "topics", topic.name, **PLAIN
    )
    listed = [found.name for found in of_topic]
    assert listed == [found.name for found in by_resource]
    return listed


def test_defaults_are_the_published_ones(arm, receiver, fresh_name):
    topic = arm.create_topic(fresh_name())
    of_topic = arm.subscriptions_of(topic)[0]
    plain = EventSubscription(
        destination=WebHookEventSubscriptionDestination(endpoint_url=receiver.url)
    )

    of_topic("begin_create_or_update", "plain", plain).result()

    read = of_topic("get", "plain")
    assert read.retry_policy.max_delivery_attempts == 30
    assert read.retry_policy.event_time_to_live_in_minutes == 1440
    assert not read.filter or not read.filter.is_subject_case_sensitive


def test_impossible_event_subscriptions_are_rejected(arm, receiver, fresh_name):
    topic = arm.create_topic(fresh_name())
    of_topic = arm.subscriptions_of(topic)[0]
    impossible = {
        "eventDeliverySchema": {"event_delivery_schema": "CustomInputSchema"},
        "maxDeliveryAttempts": {"retry_policy": RetryPolicy(max_delivery_attempts=31)},
        "eventTimeToLiveInMinutes": {
            "retry_policy": RetryPolicy(event_time_to_live_in_minutes=1441)
        },
        "advancedFilters": {
            "filter": EventSubscriptionFilter(
                advanced_filters=[NumberGreaterThanAdvancedFilter(key="data.x", value=1)] * 26
            )
        },
    }

    for field, settings in impossible.items():
        with pytest.raises(HttpResponseError) as rejected:
            of_topic(
                "begin_create_or_update", "impossible", subscription(receiver.url, **settings)
            ).result()
        assert rejected.value.status_code == 400, field
        assert field in rejected.value.message
    assert names(arm, topic) == []


def test_without_the_token_nothing_is_told(appliance, arm, fresh_name):
    topic = arm.create_topic(fresh_name())
    stranger = Arm(appliance, token="wrong")

    with pytest.raises(ClientAuthenticationError):
        stranger.client.topics.get(stranger.group, topic.name, **PLAIN)
    with pytest.raises(ClientAuthenticationError):
        stranger.client.topics.list_shared_access_keys(stranger.group, topic.name, **PLAIN)

    for path in ["/topics", "/everpost/events", "/everpost/deadLetters", "/metrics"]:
        assert requests.get(appliance.url + path, timeout=30).status_code == 401, path
