"""Namespace topics with Microsoft's own clients: managed, published to, delivered to a webhook."""

import itertools

import pytest
from azure.core.credentials import AzureKeyCredential
from azure.core.exceptions import ClientAuthenticationError, HttpResponseError, ResourceNotFoundError
from azure.core.messaging import CloudEvent
from azure.eventgrid import EventGridPublisherClient
from azure.mgmt.eventgrid.models import (
    DeliveryConfiguration,
    FiltersConfiguration,
    Namespace,
    NamespaceRegenerateKeyRequest,
    NamespaceSku,
    NamespaceTopic,
    NamespaceTopicUpdateParameters,
    NamespaceUpdateParameters,
    PushInfo,
    StaticDeliveryAttributeMapping,
    StringBeginsWithFilter,
    Subscription,
    SubscriptionUpdateParameters,
    WebHookEventSubscriptionDestination,
)
from appliance import eventually
from test_manage import PLAIN, Arm

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def arm(shared_appliance):
    return Arm(shared_appliance)


class Shop:
    """A namespace of its own with the topic `orders`, made with the management client."""

    def __init__(self, arm, url):
        self.client, self.group, self.url = arm.client, arm.group, url
        self.name = f"shop-{next(_numbers)}"
        body = Namespace(location="westeurope", sku=NamespaceSku(name="Standard", capacity=1))
        self.namespace = self.client.namespaces.begin_create_or_update(
            self.group, self.name, body, **PLAIN
        ).result()
        self.topic = self.client.namespace_topics.begin_create_or_update(
            self.group, self.name, "orders", NamespaceTopic(event_retention_in_days=2), **PLAIN
        ).result()

    def keys(self):
        return self.client.namespaces.list_shared_access_keys(self.group, self.name, **PLAIN)

    def topic_keys(self):
        return self.client.namespace_topics.list_shared_access_keys(
            self.group, self.name, "orders", **PLAIN
        )

    def publisher(self, key, endpoint=None, topic="orders"):
        return EventGridPublisherClient(
            endpoint or f"{self.url}/namespaces/{self.name}",
            AzureKeyCredential(key),
            namespace_topic=topic,
        )

    def subscriptions(self, operation, *arguments):
        operations = self.client.namespace_topic_event_subscriptions
        place = [self.group, self.name, "orders"]
        return getattr(operations, operation)(*place, *arguments, **PLAIN)

    def subscribe(self, name, url, filters=None, **push):
        webhook = push.pop("webhook", {})
        destination = WebHookEventSubscriptionDestination(endpoint_url=url, **webhook)
        body = Subscription(
            delivery_configuration=DeliveryConfiguration(
                delivery_mode="Push", push=PushInfo(destination=destination, **push)
            ),
            filters_configuration=filters,
        )
        return self.subscriptions("begin_create_or_update", name, body).result()


@pytest.fixture
def shop(arm, appliance):
    return Shop(arm, appliance.url)


def cloud_event(**changes):
    event = {"source": "/shop", "type": "Order.Paid", "data": {"total": 12.5}}
    return CloudEvent(**{**event, **changes})


def test_namespaces_and_topics_are_managed(arm, shop):
    assert shop.namespace.type == "Microsoft.EventGrid/namespaces"
    assert shop.namespace.provisioning_state == "Succeeded"
    assert shop.namespace.topics_configuration.hostname in shop.url
    assert shop.topic.id == f"{shop.namespace.id}/topics/orders"
    assert shop.topic.event_retention_in_days == 2
    assert shop.topic.publisher_type == "Custom"
    assert shop.topic.input_schema == "CloudEventSchemaV1_0"

    patch = NamespaceUpdateParameters(tags={"team": "shop"})
    arm.client.namespaces.begin_update(arm.group, shop.name, patch, **PLAIN).result()
    read = arm.client.namespaces.get(arm.group, shop.name, **PLAIN)
    assert read.tags == {"team": "shop"}
    longer = NamespaceTopicUpdateParameters(event_retention_in_days=7)
    arm.client.namespace_topics.begin_update(
        arm.group, shop.name, "orders", longer, **PLAIN
    ).result()
    read = arm.client.namespace_topics.get(arm.group, shop.name, "orders", **PLAIN)
    assert read.event_retention_in_days == 7

    in_group = arm.client.namespaces.list_by_resource_group(arm.group, **PLAIN)
    in_subscription = arm.client.namespaces.list_by_subscription(**PLAIN)
    assert shop.name in [each.name for each in in_group]
    assert shop.name in [each.name for each in in_subscription]
    topics = arm.client.namespace_topics.list_by_namespace(arm.group, shop.name, **PLAIN)
    assert [each.name for each in topics] == ["orders"]

    before = shop.keys()
    renew = NamespaceRegenerateKeyRequest(key_name="key1")
    arm.client.namespaces.begin_regenerate_key(arm.group, shop.name, renew, **PLAIN).result()
    after = shop.keys()
    assert before.key1 != after.key1 and before.key2 == after.key2

    arm.client.namespace_topics.begin_delete(arm.group, shop.name, "orders", **PLAIN).result()
    arm.client.namespaces.begin_delete(arm.group, shop.name, **PLAIN).result()
    with pytest.raises(ResourceNotFoundError):
        arm.client.namespaces.get(arm.group, shop.name, **PLAIN)


def test_subscriptions_are_managed(shop, receiver):
    mapping = StaticDeliveryAttributeMapping(name="X-Key", value="hidden", is_secret=True)
    filters = FiltersConfiguration(
        included_event_types=["Order.Paid"],
        filters=[StringBeginsWithFilter(key="subject", values=["/orders/"])],
    )
    created = shop.subscribe(
        "billing",
        receiver.url + "?code=secret",
        filters,
        max_delivery_count=3,
        event_time_to_live="PT1H",
        webhook={"max_events_per_batch": 5, "delivery_attribute_mappings": [mapping]},
    )
    assert created.provisioning_state == "Succeeded"
    [handshake] = receiver.handshakes
    assert handshake["event"] is None
    assert "WebHook-Request-Callback" not in handshake["headers"]

    patch = SubscriptionUpdateParameters(
        delivery_configuration=DeliveryConfiguration(push=PushInfo(max_delivery_count=2))
    )
    shop.subscriptions("begin_update", "billing", patch).result()
    read = shop.subscriptions("get", "billing")
    push = read.delivery_configuration.push
    assert (push.max_delivery_count, push.event_time_to_live) == (2, "PT1H")
    assert push.destination.endpoint_base_url == receiver.url
    assert push.destination.max_events_per_batch == 5
    assert read.filters_configuration.included_event_types == ["Order.Paid"]
    assert read.filters_configuration.filters[0].values == ["/orders/"]
    assert shop.subscriptions("get_full_url", "billing").endpoint_url.endswith("?code=secret")
    [shown] = shop.subscriptions("get_delivery_attributes", "billing").value
    assert (shown.name, shown.value) == ("X-Key", None)
    assert [each.name for each in shop.subscriptions("list_by_namespace_topic")] == ["billing"]

    shop.subscriptions("begin_delete", "billing").result()
    with pytest.raises(ResourceNotFoundError):
        shop.subscriptions("get", "billing")


def test_a_webhook_that_does_not_agree_gets_no_subscription(shop, receiver):
    receiver.handshake_answer = (200, {}, b"")

    with pytest.raises(HttpResponseError) as rejected:
        shop.subscribe("billing", receiver.url)

    assert rejected.value.status_code == 400
    assert "WebHook-Allowed-Origin" in rejected.value.message
    assert list(shop.subscriptions("list_by_namespace_topic")) == []


def test_published_events_reach_the_webhook(shop, receiver):
    shop.subscribe("billing", receiver.url)
    publisher = shop.publisher(shop.keys().key1)

    publisher.send(cloud_event(id="one", subject="/orders/7", extensions={"tenant": "north"}))
    publisher.send([cloud_event(id="two"), cloud_event(id="three", data=b"\x00\x01")])

    events = {event["id"]: event for event in receiver.wait_for_events(3)}
    assert events["one"]["data"] == {"total": 12.5}
    assert (events["one"]["tenant"], events["one"]["subject"]) == ("north", "/orders/7")
    assert events["three"]["data_base64"] == "AAE="
    [first, *_] = receiver.deliveries
    assert first.headers["Content-Type"] == "application/cloudevents+json; charset=utf-8"


def test_the_namespace_is_found_by_the_key_alone(shop, receiver):
    shop.subscribe("billing", receiver.url)

    shop.publisher(shop.topic_keys().key2, endpoint=shop.url).send(cloud_event(id="found"))

    assert receiver.wait_for_events(1)[0]["id"] == "found"


def test_rejections_are_read_by_the_client(shop):
    with pytest.raises(ClientAuthenticationError):
        shop.publisher("nonsense").send(cloud_event())
    with pytest.raises(ResourceNotFoundError):
        shop.publisher(shop.keys().key1, topic="nothing").send(cloud_event())
    with pytest.raises(HttpResponseError) as rejected:
        shop.publisher(shop.keys().key1).send([cloud_event() for _ in range(1001)])
    assert rejected.value.status_code == 413
    assert "at most 1000" in rejected.value.message


def test_what_is_given_up_is_recorded_as_azure_does(appliance, shop, receiver):
    shop.subscribe("billing", receiver.url)
    receiver.script(401)

    shop.publisher(shop.keys().key1).send(cloud_event(id="lost"))

    path = f"/everpost/deadLetters?topic={shop.name}/orders"
    receiver.wait_for(1)
    [listed] = eventually(lambda: appliance.manage("GET", path)["value"], "a dead letter")
    record = appliance.manage("GET", f"/everpost/deadLetters/{listed['deliveryId']}")["record"]
    assert record["event"]["id"] == "lost"
    assert record["deadletterProperties"]["deadletterreason"] == "Undeliverable due to client error"
    assert record["deadletterProperties"]["deliveryresult"] == "Unauthorized"
