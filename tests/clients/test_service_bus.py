"""Queues, as the stock Service Bus client for Python uses them."""

import datetime
import os
import time
import uuid

import pytest
from azure.servicebus import (
    ServiceBusClient,
    ServiceBusMessage,
    ServiceBusReceiveMode,
    ServiceBusSubQueue,
)
from azure.servicebus.exceptions import (
    MessageLockLostError,
    MessageSizeExceededError,
    MessagingEntityNotFoundError,
    ServiceBusAuthenticationError,
    ServiceBusError,
)

from appliance import Appliance

WAIT_S = 5


def connection_string(appliance, key=None):
    endpoint = appliance.url.removeprefix("http://")
    return (
        f"Endpoint=sb://{endpoint};SharedAccessKeyName=RootManageSharedAccessKey;"
        f"SharedAccessKey={key or appliance.token};UseDevelopmentEmulator=true;"
    )


@pytest.fixture
def client(appliance):
    with ServiceBusClient.from_connection_string(
        connection_string(appliance), retry_total=0
    ) as client:
        yield client


@pytest.fixture
def create_queue(appliance):
    def create(**properties):
        name = f"q-{uuid.uuid4()}"
        appliance.manage("PUT", f"/queues/{name}", {"properties": properties}, status=201)
        return name

    return create


@pytest.fixture
def queue(create_queue):
    return create_queue(maxDeliveryCount=3)


def send(client, queue, *bodies, **properties):
    with client.get_queue_sender(queue) as sender:
        sender.send_messages([ServiceBusMessage(body, **properties) for body in bodies])


def receiver(client, queue, **options):
    return client.get_queue_receiver(queue, max_wait_time=WAIT_S, **options)


def bodies(messages):
    return [str(message) for message in messages]


def test_messages_arrive_with_their_properties(client, queue):
    at = datetime.datetime.now(datetime.timezone.utc)
    sent = ServiceBusMessage(
        b"\x00body",
        application_properties={"int": 7, "text": "grün", "yes": True, "half": 0.5},
        content_type="application/x-test",
        correlation_id="c1",
        message_id="m1",
        subject="label",
        to="to",
        reply_to="reply",
        time_to_live=datetime.timedelta(minutes=5),
    )
    with client.get_queue_sender(queue) as sender:
        sender.send_messages(sent)
    with receiver(client, queue) as receiving:
        [message] = receiving.receive_messages(max_message_count=5)
        assert b"".join(message.body) == b"\x00body"
        assert (message.message_id, message.correlation_id) == ("m1", "c1")
        assert (message.subject, message.to, message.reply_to) == ("label", "to", "reply")
        assert message.content_type == "application/x-test"
        assert message.time_to_live == datetime.timedelta(minutes=5)
        assert message.application_properties == {
            b"int": 7,
            b"text": "grün".encode(),
            b"yes": True,
            b"half": 0.5,
        }
        assert message.sequence_number > 0 and message.delivery_count == 0
        assert abs(message.enqueued_time_utc - at) < datetime.timedelta(seconds=30)
        assert message.locked_until_utc > at
        receiving.complete_message(message)
        assert receiving.receive_messages(max_wait_time=1) == []


def test_batches_and_large_messages(client, queue):
    with client.get_queue_sender(queue) as sender:
        batch = sender.create_message_batch()
        for number in range(100):
            batch.add_message(ServiceBusMessage(f"{number}"))
        sender.send_messages(batch)
        large = os.urandom(300_000)
        sender.send_messages(ServiceBusMessage(large))
        with pytest.raises(MessageSizeExceededError):
            sender.send_messages(ServiceBusMessage(bytes(2_000_000)))
    found = []
    with receiver(client, queue) as receiving:
        while len(found) < 101:
            messages = receiving.receive_messages(max_message_count=50)
            assert messages
            for message in messages:
                receiving.complete_message(message)
            found += messages
    assert bodies(found[:100]) == [str(number) for number in range(100)]
    assert b"".join(found[100].body) == large


def test_abandoned_messages_return_and_die_in_the_end(client, queue):
    send(client, queue, "poison", "good")
    with receiver(client, queue) as receiving:
        for count in range(3):
            [message] = receiving.receive_messages(max_message_count=1)
            assert (str(message), message.delivery_count) == ("poison", count)
            receiving.abandon_message(message)
        [message] = receiving.receive_messages(max_message_count=1)
        assert str(message) == "good"
        receiving.complete_message(message)
    with receiver(client, queue, sub_queue=ServiceBusSubQueue.DEAD_LETTER) as dead:
        [message] = dead.receive_messages()
        assert message.dead_letter_reason == "MaxDeliveryCountExceeded"
        assert "3 delivery attempts" in message.dead_letter_error_description
        dead.complete_message(message)


def test_dead_lettered_messages_have_their_reason(client, queue):
    send(client, queue, "bad")
    with receiver(client, queue) as receiving:
        [message] = receiving.receive_messages()
        receiving.dead_letter_message(message, reason="broken", error_description="no number")
    with receiver(client, queue, sub_queue=ServiceBusSubQueue.DEAD_LETTER) as dead:
        [message] = dead.receive_messages()
        assert (message.dead_letter_reason, message.dead_letter_error_description) == (
            "broken",
            "no number",
        )
        dead.complete_message(message)
        assert dead.peek_messages() == []


def test_deferred_messages_come_by_their_number(client, queue):
    send(client, queue, "later")
    with receiver(client, queue) as receiving:
        [message] = receiving.receive_messages()
        receiving.defer_message(message)
        assert receiving.receive_messages(max_wait_time=1) == []
        [deferred] = receiving.receive_deferred_messages(message.sequence_number)
        assert str(deferred) == "later"
        receiving.complete_message(deferred)
        with pytest.raises(ServiceBusError):
            receiving.receive_deferred_messages(message.sequence_number)


def test_locks_are_renewed_and_lost(client, create_queue):
    queue = create_queue(lockDuration="PT5S")
    send(client, queue, "slow")
    with receiver(client, queue) as receiving:
        [message] = receiving.receive_messages()
        before = message.locked_until_utc
        time.sleep(3)
        receiving.renew_message_lock(message)
        assert message.locked_until_utc > before
        time.sleep(3)
        receiving.renew_message_lock(message)
        time.sleep(5.5)
        # The client itself refuses what it knows to be late.
        with pytest.raises(ServiceBusError):
            receiving.complete_message(message)
        [again] = receiving.receive_messages()
        assert again.delivery_count == 1
        with receiver(client, queue) as other:
            receiving.complete_message(again)
            assert other.receive_messages(max_wait_time=1) == []


def test_a_lost_lock_is_told(client, queue):
    send(client, queue, "twice")
    with receiver(client, queue) as receiving:
        [message] = receiving.receive_messages()
        receiving.complete_message(message)
        message._settled = False
        with pytest.raises(MessageLockLostError):
            receiving.renew_message_lock(message)


def test_messages_are_peeked_at(client, queue):
    send(client, queue, *"abc")
    with receiver(client, queue) as receiving:
        found = receiving.peek_messages(max_message_count=2)
        assert bodies(found) == ["a", "b"]
        found = receiving.peek_messages(max_message_count=9, sequence_number=found[1].sequence_number)
        assert bodies(found) == ["b", "c"]
        [message] = receiving.receive_messages(max_message_count=1)
        assert str(message) == "a"


def test_scheduled_messages_come_later_or_never(client, queue):
    now = lambda: datetime.datetime.now(datetime.timezone.utc)
    late = now() + datetime.timedelta(hours=1)
    with client.get_queue_sender(queue) as sender:
        numbers = sender.schedule_messages([ServiceBusMessage("a"), ServiceBusMessage("b")], late)
        assert len(numbers) == 2
        sender.cancel_scheduled_messages(numbers)
        with pytest.raises(ServiceBusError):
            sender.cancel_scheduled_messages(numbers)
        with receiver(client, queue) as receiving:
            soon = now() + datetime.timedelta(seconds=3)
            sender.schedule_messages(ServiceBusMessage("soon"), soon)
            assert receiving.receive_messages(max_wait_time=1) == []
            [message] = receiving.receive_messages(max_wait_time=10)
            assert now() >= soon
            assert str(message) == "soon"
            receiving.complete_message(message)


def test_messages_are_removed_as_they_are_received(client, queue):
    send(client, queue, *"ab")
    mode = ServiceBusReceiveMode.RECEIVE_AND_DELETE
    with receiver(client, queue, receive_mode=mode) as receiving:
        found = []
        while len(found) < 2:
            found += bodies(receiving.receive_messages(max_message_count=2))
        assert found == ["a", "b"]
        assert receiving.peek_messages() == []


def test_prefetched_messages_are_iterated(client, queue):
    send(client, queue, *(str(number) for number in range(60)))
    found = []
    with receiver(client, queue, prefetch_count=20) as receiving:
        for message in receiving:
            receiving.complete_message(message)
            found.append(str(message))
            if len(found) == 60:
                break
    assert found == [str(number) for number in range(60)]


def test_what_was_prefetched_returns_uncounted(client, queue):
    send(client, queue, *"abcde")
    with receiver(client, queue, prefetch_count=5) as receiving:
        [message] = receiving.receive_messages(max_message_count=1)
        receiving.complete_message(message)
    with receiver(client, queue) as receiving:
        found = []
        while len(found) < 4:
            messages = receiving.receive_messages(max_message_count=4)
            assert messages, found
            found += messages
        assert sorted(bodies(found)) == list("bcde")


def test_messages_expire_by_their_own_time_or_by_the_queues(client, create_queue):
    second = datetime.timedelta(seconds=1)
    for properties, lives in [
        ({}, second),
        ({"defaultMessageTimeToLive": "PT1S"}, None),
        ({"defaultMessageTimeToLive": "PT1S"}, datetime.timedelta(hours=1)),
    ]:
        for keeps in (False, True):
            queue = create_queue(deadLetteringOnMessageExpiration=keeps, **properties)
            send(client, queue, "late", time_to_live=lives)
            time.sleep(1.1)
            with receiver(client, queue) as receiving:
                assert receiving.receive_messages(max_wait_time=1) == []
            with receiver(client, queue, sub_queue=ServiceBusSubQueue.DEAD_LETTER) as dead:
                found = dead.receive_messages(max_wait_time=1)
                reasons = [message.dead_letter_reason for message in found]
                assert reasons == ["TTLExpiredException"] * keeps, (properties, lives)


def test_messages_survive_a_restart(tmp_path):
    with Appliance(tmp_path / "data") as appliance:
        appliance.manage("PUT", "/queues/jobs", {"properties": {}}, status=201)
        with ServiceBusClient.from_connection_string(connection_string(appliance)) as client:
            send(client, "jobs", *"abc")
            with receiver(client, "jobs") as receiving:
                [first] = receiving.receive_messages(max_message_count=1)
                receiving.complete_message(first)
    with Appliance(tmp_path / "data") as appliance:
        with ServiceBusClient.from_connection_string(connection_string(appliance)) as client:
            with receiver(client, "jobs") as receiving:
                assert bodies(receiving.peek_messages(max_message_count=9)) == ["b", "c"]


def test_queues_are_made_and_counted_on_the_command_line(appliance, client):
    queue = f"q-{uuid.uuid4()}"
    appliance.command("queues", "create", queue, "--max-delivery-count", "1", "--lock-duration", "PT30S")
    send(client, queue, "poison", "good")
    with receiver(client, queue) as receiving:
        [message] = receiving.receive_messages(max_message_count=1)
        receiving.abandon_message(message)
    row = next(row for row in appliance.command("queues", "list").splitlines() if queue in row)
    assert row.split() == [queue, "1", "1", "1", "PT30S"]
    assert "dead letters      1" in appliance.command("queues", "show", queue)
    appliance.command("queues", "delete", queue, "--yes")
    with pytest.raises(MessagingEntityNotFoundError):
        send(client, queue, "lost")


def test_a_dead_letter_is_resubmitted_to_its_queue(appliance, client, queue):
    send(client, queue, "again")
    with receiver(client, queue) as receiving:
        [message] = receiving.receive_messages()
        receiving.dead_letter_message(message, reason="not today")
        [dead] = appliance.manage("GET", f"/everpost/deadLetters?topic={queue}")["value"]
        appliance.command("dead-letters", "resubmit", str(dead["deliveryId"]))
        [message] = receiving.receive_messages()
        assert (str(message), message.delivery_count) == ("again", 0)
        receiving.complete_message(message)


def test_topics_of_namespaces_have_subscriptions(appliance, client):
    namespace = f"n-{uuid.uuid4()}"
    path = f"/namespaces/{namespace}/topics/orders"
    appliance.manage("PUT", f"/namespaces/{namespace}", {"location": "local"})
    appliance.manage("PUT", path, {"properties": {}})
    delivery = {"deliveryMode": "Queue", "queue": {}}
    paid = {"operatorType": "StringIn", "key": "subject", "values": ["paid"]}
    for name, filters in [("all", []), ("paid", [paid])]:
        properties = {"deliveryConfiguration": delivery, "filtersConfiguration": {"filters": filters}}
        appliance.manage("PUT", f"{path}/eventSubscriptions/{name}", {"properties": properties})
    topic = f"{namespace}/orders"
    with client.get_topic_sender(topic) as sender:
        sender.send_messages([ServiceBusMessage(each, subject=each) for each in ("open", "paid")])

    def drain(subscription, **options):
        with client.get_subscription_receiver(
            topic, subscription, max_wait_time=1, **options
        ) as receiving:
            found = list(receiving)
            for message in found:
                settle = receiving.complete_message if options else receiving.dead_letter_message
                settle(message)
        return bodies(found)

    assert drain("all") == ["open", "paid"]
    assert drain("paid") == ["paid"]
    assert drain("paid", sub_queue=ServiceBusSubQueue.DEAD_LETTER) == ["paid"]
    with pytest.raises(ServiceBusError, match="received from its subscriptions"):
        with receiver(client, topic) as receiving:
            receiving.receive_messages()
    with pytest.raises(ServiceBusError, match="Cannot create a message sender"):
        send(client, f"{topic}/Subscriptions/all", "lost")


def test_missing_queues_are_named(client):
    with pytest.raises(MessagingEntityNotFoundError):
        send(client, "missing", "lost")
    with pytest.raises(MessagingEntityNotFoundError):
        with receiver(client, "missing") as receiving:
            receiving.receive_messages()


def test_nothing_is_sent_to_a_dead_letter_queue(client, queue):
    with pytest.raises(ServiceBusError):
        send(client, f"{queue}/$DeadLetterQueue", "lost")


def test_a_wrong_key_opens_nothing(appliance, queue):
    string = connection_string(appliance, key="d3Jvbmc=")
    with ServiceBusClient.from_connection_string(string, retry_total=0) as client:
        with pytest.raises(ServiceBusAuthenticationError):
            send(client, queue, "lost")
