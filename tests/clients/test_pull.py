"""Namespace topics pulled with Microsoft's own client, in fast motion: a minute passes in six seconds."""

import json
import subprocess
from datetime import timedelta

import pytest
from azure.core.credentials import AzureKeyCredential
from azure.core.exceptions import ClientAuthenticationError, HttpResponseError, ResourceNotFoundError
from azure.eventgrid import EventGridConsumerClient
from azure.mgmt.eventgrid.models import (
    DeliveryConfiguration,
    QueueInfo,
    Subscription,
    SubscriptionUpdateParameters,
)
from appliance import BINARY, environment, eventually
from test_manage import Arm
from test_namespaces import Shop, cloud_event


@pytest.fixture(scope="module")
def arm(fast_appliance):
    return Arm(fast_appliance)


class Queue:
    """A namespace with the pulled subscription `audit` of the topic `orders`."""

    def __init__(self, arm, appliance, **queue):
        self.shop = Shop(arm, appliance.url)
        self.appliance = appliance
        body = Subscription(
            delivery_configuration=DeliveryConfiguration(
                delivery_mode="Queue", queue=QueueInfo(**queue)
            )
        )
        self.created = self.shop.subscriptions("begin_create_or_update", "audit", body).result()
        self.key = self.shop.keys().key1

    def consumer(self, key=None, subscription="audit", endpoint=None):
        return EventGridConsumerClient(
            endpoint or f"{self.appliance.url}/namespaces/{self.shop.name}",
            AzureKeyCredential(key or self.key),
            namespace_topic="orders",
            subscription=subscription,
        )

    def publish(self, *ids):
        publisher = self.shop.publisher(self.key)
        publisher.send([cloud_event(id=each, subject="/orders/7") for each in ids])

    def dead_letter(self):
        """The record of the only dead letter."""
        path = f"/everpost/deadLetters?topic={self.shop.name}/orders"
        [listed] = eventually(lambda: self.appliance.manage("GET", path)["value"], "a dead letter")
        path = f"/everpost/deadLetters/{listed['deliveryId']}"
        return self.appliance.manage("GET", path)["record"]


@pytest.fixture
def queue(arm, fast_appliance):
    return Queue(arm, fast_appliance)


def token(details):
    return details.broker_properties.lock_token


def succeed(result, *expected):
    assert result.succeeded_lock_tokens == [token(each) for each in expected]
    assert result.failed_lock_tokens == []


def test_queues_are_managed(queue):
    read = queue.created.delivery_configuration
    assert queue.created.provisioning_state == "Succeeded"
    assert (read.delivery_mode, read.queue.receive_lock_duration_in_seconds) == ("Queue", 60)
    assert (read.queue.max_delivery_count, read.queue.event_time_to_live) == (10, timedelta(days=2))
    patch = SubscriptionUpdateParameters(
        delivery_configuration=DeliveryConfiguration(queue=QueueInfo(max_delivery_count=3))
    )
    queue.shop.subscriptions("begin_update", "audit", patch).result()
    read = queue.shop.subscriptions("get", "audit").delivery_configuration
    assert (read.delivery_mode, read.queue.max_delivery_count) == ("Queue", 3)


def test_events_are_received_and_acknowledged(queue):
    queue.publish("one", "two", "three")
    consumer = queue.consumer()

    [first] = consumer.receive()
    others = consumer.receive(max_events=100, max_wait_time=10)

    received = {each.event.id: each for each in [first, *others]}
    assert set(received) == {"one", "two", "three"}
    assert {each.broker_properties.delivery_count for each in received.values()} == {1}
    event = received["one"].event
    assert (event.data, event.subject, event.type) == ({"total": 12.5}, "/orders/7", "Order.Paid")
    everything = list(received.values())
    acknowledged = consumer.acknowledge(lock_tokens=[token(each) for each in everything])
    succeed(acknowledged, *everything)
    again = consumer.acknowledge(lock_tokens=[token(first), "nonsense"])
    assert again.succeeded_lock_tokens == []
    [lost, bad] = again.failed_lock_tokens
    assert (lost.lock_token, lost.error.code) == (token(first), "TokenLost")
    assert (bad.error.code, bool(bad.error.message)) == ("BadToken", True)


def test_released_events_come_back_after_their_delay(queue):
    queue.publish("one")
    consumer = queue.consumer()
    [held] = consumer.receive()

    succeed(consumer.release(lock_tokens=[token(held)]), held)
    [again] = consumer.receive(max_wait_time=10)
    assert (again.event.id, again.broker_properties.delivery_count) == ("one", 2)

    # A minute is six seconds here: the receiver waits for it.
    succeed(consumer.release(lock_tokens=[token(again)], release_delay="60"), again)
    [third] = consumer.receive(max_wait_time=60)
    assert third.broker_properties.delivery_count == 3
    succeed(consumer.acknowledge(lock_tokens=[token(third)]), third)


def test_a_rejected_event_is_a_dead_letter(queue):
    queue.publish("one")
    consumer = queue.consumer()
    [held] = consumer.receive()

    succeed(consumer.reject(lock_tokens=[token(held)]), held)

    record = queue.dead_letter()
    assert record["event"]["id"] == "one"
    assert record["deadletterProperties"]["deadletterreason"] == "Event was rejected."


def test_renewed_locks_last_longer(arm, fast_appliance):
    queue = Queue(arm, fast_appliance, receive_lock_duration_in_seconds=300)
    queue.publish("one")
    consumer = queue.consumer()
    [held] = consumer.receive()
    found = lambda: queue.appliance.manage("GET", f"/everpost/events?id=one&topic={queue.shop.name}/orders")
    [event] = found()["value"]
    due = lambda: queue.appliance.manage("GET", f"/everpost/events/{event['key']}")["deliveries"][0]
    before = due()["nextAttemptAt"]

    succeed(consumer.renew_locks(lock_tokens=[token(held)]), held)

    assert due()["nextAttemptAt"] > before
    succeed(consumer.acknowledge(lock_tokens=[token(held)]), held)


def test_what_is_received_too_often_is_a_dead_letter(arm, fast_appliance):
    queue = Queue(arm, fast_appliance, max_delivery_count=2)
    queue.publish("one")
    consumer = queue.consumer()
    [first] = consumer.receive()
    # The lock lapses after six seconds, and whoever waits gets the event at once.
    [second] = consumer.receive(max_wait_time=60)
    assert second.broker_properties.delivery_count == 2
    assert token(first) != token(second)
    assert consumer.acknowledge(lock_tokens=[token(first)]).failed_lock_tokens[0].error.code == "TokenLost"

    assert consumer.receive(max_wait_time=10) == []

    facts = queue.dead_letter()["deadletterProperties"]
    assert facts["deadletterreason"] == "Maximum delivery attempts was exceeded."
    assert facts["deliveryresult"] == "Event was not acknowledged nor rejected."
    assert facts["deliveryattempts"] == 2


def test_rejections_are_read_by_the_client(queue):
    with pytest.raises(ClientAuthenticationError):
        queue.consumer(key="nonsense").receive()
    with pytest.raises(ResourceNotFoundError):
        queue.consumer(subscription="nothing").receive()
    with pytest.raises(HttpResponseError) as rejected:
        queue.consumer().receive(max_events=101)
    assert rejected.value.status_code == 400
    assert "maxEvents must be 1 to 100" in rejected.value.message


def test_the_namespace_is_found_by_the_key_alone(queue):
    queue.publish("one")
    key = queue.shop.topic_keys().key2
    consumer = queue.consumer(key=key, endpoint=queue.appliance.url)
    [held] = consumer.receive()
    succeed(consumer.acknowledge(lock_tokens=[token(held)]), held)


def test_the_command_line_pulls_too(queue):
    queue.publish("one", "two")
    command = [BINARY, "receive", "--pull", "audit", "--topic", f"{queue.shop.name}/orders"]
    settings = {
        **environment(),
        "EVERPOST_URL": queue.appliance.url,
        "EVERPOST_MANAGEMENT_TOKEN": queue.appliance.token,
    }

    def run(*flags):
        done = subprocess.run(
            [*command, *flags], env=settings, capture_output=True, text=True, timeout=60, check=True
        )
        return done.stdout

    kept = [json.loads(line) for line in run("--json", "--count", "1", "--then", "release").splitlines()]
    assert kept[0]["event"]["id"] in ("one", "two")
    told = run("--count", "2")
    assert "event one  Order.Paid  /orders/7" in told and 'data: {"total":12.5}' in told
    assert run("--wait", "10") == ""
