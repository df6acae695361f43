"""Senders, as the stock Service Bus client for Python uses them."""

import datetime
from concurrent.futures import ThreadPoolExecutor

import pytest
from azure.servicebus import ServiceBusMessage, ServiceBusMessageState, ServiceBusSubQueue
from azure.servicebus.amqp import AmqpAnnotatedMessage
from azure.servicebus.exceptions import (
    MessageNotFoundError,
    MessageSizeExceededError,
    MessagingEntityDisabledError,
    MessagingEntityNotFoundError,
    ServiceBusError,
    ServiceBusQuotaExceededError,
)

from queues import SIZES, bodies, body_of, drain, over_all_transports, received, receiver, send

pytestmark = over_all_transports


@pytest.fixture
def queue(create_queue):
    return create_queue(maxDeliveryCount=3)


def in_an_hour():
    return datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1)


@pytest.mark.parametrize("size", SIZES)
def test_a_message_is_sent(client, queue, size):
    body = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    with client.get_queue_sender(queue) as sender:
        sender.send_messages(ServiceBusMessage(body))
        sender.send_messages(ServiceBusMessage(b"behind it"))
    assert [body_of(each) for each in received(client, queue, 2)] == [body, b"behind it"]


def test_a_list_of_messages_is_sent_whole_and_in_order(client, queue):
    expected = [f"{number}" for number in range(30)]
    send(client, queue, *expected)
    assert bodies(received(client, queue, 30)) == expected


def test_nothing_is_sent_for_nothing(client, queue):
    with client.get_queue_sender(queue) as sender:
        sender.send_messages([])
        sender.send_messages(sender.create_message_batch())
        sender.send_messages(ServiceBusMessage(b""))
    [message] = received(client, queue, 1)
    assert body_of(message) == b""


def test_a_message_larger_than_the_link_takes_is_rejected_and_the_next_one_sent(client, queue):
    with client.get_queue_sender(queue) as sender:
        with pytest.raises(MessageSizeExceededError):
            sender.send_messages(ServiceBusMessage(bytes(2_000_000)))
        with pytest.raises(MessageSizeExceededError):
            sender.send_messages([ServiceBusMessage(bytes(2_000_000))])
        sender.send_messages(ServiceBusMessage("small"))
    assert bodies(received(client, queue, 1)) == ["small"]


def test_several_senders_send_at_once(client, queue):
    def work(name):
        with client.get_queue_sender(queue) as sender:
            for number in range(5):
                sender.send_messages(ServiceBusMessage(f"{name}{number}"))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, "abcd"))
    found = bodies(received(client, queue, 20))
    for name in "abcd":
        assert [each for each in found if each[0] == name] == [f"{name}{number}" for number in range(5)]


@pytest.mark.parametrize("size", SIZES)
def test_messages_are_scheduled_and_cancelled(client, queue, size):
    body = "x" * size
    with client.get_queue_sender(queue) as sender:
        numbers = sender.schedule_messages([ServiceBusMessage(body), ServiceBusMessage("b")], in_an_hour())
        [alone] = sender.schedule_messages(ServiceBusMessage("c"), in_an_hour())
        with receiver(client, queue) as receiving:
            found = receiving.peek_messages(max_message_count=9)
            assert bodies(found) == [body, "b", "c"]
            assert [each.sequence_number for each in found] == [*numbers, alone]
            assert {each.state for each in found} == {ServiceBusMessageState.SCHEDULED}
            assert all(each.scheduled_enqueue_time_utc > datetime.datetime.now(datetime.timezone.utc) for each in found)
            sender.cancel_scheduled_messages(numbers)
            assert bodies(receiving.peek_messages(max_message_count=9, sequence_number=1)) == ["c"]
            sender.cancel_scheduled_messages(alone)
            assert receiving.peek_messages(sequence_number=1) == []


def test_a_message_is_scheduled_by_its_own_time(client, queue):
    send(client, queue, "later", scheduled_enqueue_time_utc=in_an_hour())
    soon = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=1)
    send(client, queue, "soon", scheduled_enqueue_time_utc=soon)
    with receiver(client, queue) as receiving:
        [peeked, _] = receiving.peek_messages(max_message_count=2)
        assert (str(peeked), peeked.state) == ("later", ServiceBusMessageState.SCHEDULED)
        assert drain(receiving, 1) == ["soon"]
        [left] = receiving.peek_messages(max_message_count=2, sequence_number=1)
        assert (str(left), left.state) == ("later", ServiceBusMessageState.SCHEDULED)


def test_what_is_not_scheduled_cannot_be_cancelled(client, queue):
    send(client, queue, "active")
    with client.get_queue_sender(queue) as sender:
        for number in (1, 99):
            with pytest.raises(MessageNotFoundError):
                sender.cancel_scheduled_messages(number)
    assert bodies(received(client, queue, 1)) == ["active"]


def test_a_received_message_is_sent_on(client, queue, create_queue):
    other = create_queue()
    send(client, queue, "again", message_id="m", subject="s", application_properties={"n": 1})
    with receiver(client, queue) as receiving:
        [message] = receiving.receive_messages()
        with client.get_queue_sender(other) as sender:
            sender.send_messages(message)
        receiving.complete_message(message)
    [message] = received(client, other, 1)
    assert (str(message), message.message_id, message.subject) == ("again", "m", "s")
    assert message.application_properties == {b"n": 1}
    assert message.delivery_count == 0


def test_a_closed_sender_sends_nothing(client, queue):
    with client.get_queue_sender(queue) as sender:
        sender.send_messages(ServiceBusMessage("a"))
    with pytest.raises(ValueError):
        sender.send_messages(ServiceBusMessage("b"))
    assert bodies(received(client, queue, 1)) == ["a"]


def test_a_disabled_queue_takes_nothing(appliance, client, create_queue):
    queue = create_queue(status="SendDisabled")
    with pytest.raises(MessagingEntityDisabledError):
        send(client, queue, "lost")
    appliance.manage("PUT", f"/queues/{queue}", {"properties": {"status": "Active"}})
    send(client, queue, "kept")
    assert bodies(received(client, queue, 1)) == ["kept"]


def test_a_sender_ends_with_its_queue(appliance, connect, queue):
    # The message and the end of the link may cross: the client then tries once more, as it does unless told otherwise.
    with connect(retry_total=1).get_queue_sender(queue) as sender:
        sender.send_messages(ServiceBusMessage("a"))
        appliance.manage("DELETE", f"/queues/{queue}")
        with pytest.raises(MessagingEntityNotFoundError):
            sender.send_messages(ServiceBusMessage("b"))


def test_messages_that_other_clients_could_not_read_are_rejected(client, queue):
    deep = []
    for _ in range(80):
        deep = [deep]
    with client.get_queue_sender(queue) as sender:
        for field, message in (
            ('the property "p"', ServiceBusMessage("a", application_properties={"p": {"k": 1}})),
            ("nested more than 64 deep", AmqpAnnotatedMessage(value_body=deep)),
        ):
            with pytest.raises(ServiceBusError, match=field):
                sender.send_messages(message)
        sender.send_messages(ServiceBusMessage("x" * 129, message_id="x" * 128))
    with receiver(client, queue) as receiving:
        assert drain(receiving, 1) == ["x" * 129]


def test_a_full_queue_takes_nothing_more(appliance, client, create_queue):
    queue, large = create_queue(maxSizeInMegabytes=1), b"x" * 400_000
    shown = lambda name=queue: appliance.manage("GET", f"/queues/{name}")["properties"]
    size = lambda: shown()["sizeInBytes"]
    assert (size(), shown()["maxSizeInMegabytes"]) == (0, 1)
    send(client, queue, large, large)
    assert 800_000 < size() < 801_000
    with pytest.raises(ServiceBusQuotaExceededError, match="is full"):
        send(client, queue, large)
    from_another = create_queue(forwardTo=queue)
    send(client, from_another, large)
    with receiver(client, from_another, sub_queue=ServiceBusSubQueue.DEAD_LETTER) as dead:
        [message] = dead.receive_messages()
        assert message.dead_letter_reason == "ForwardTargetFull"
    with receiver(client, queue) as receiving:
        first, second = receiving.receive_messages(max_message_count=2)
        receiving.dead_letter_message(first)
        with pytest.raises(ServiceBusQuotaExceededError):
            send(client, queue, large)
        receiving.complete_message(second)
    assert 400_000 < size() < 401_000, "the dead letter counts"
    send(client, queue, large)
    appliance.manage("PUT", f"/queues/{queue}", {"properties": {"maxSizeInMegabytes": 2}}, status=201)
    send(client, queue, large)
    assert 1_200_000 < size() < 1_201_000
    for wrong in (0, 1_048_577, "much"):
        body = {"properties": {"maxSizeInMegabytes": wrong}}
        rejected = appliance.manage("PUT", f"/queues/{queue}", body, status=400)
        assert "maxSizeInMegabytes" in str(rejected)


def test_missing_queues_are_named(client):
    with pytest.raises(MessagingEntityNotFoundError, match=r"'sb://.+/missing' could not be found. Reason: there is no queue"):
        send(client, "missing", "lost")
    with pytest.raises(MessagingEntityNotFoundError):
        with receiver(client, "missing") as receiving:
            receiving.receive_messages()


def test_nothing_is_sent_to_a_dead_letter_queue(client, queue):
    with pytest.raises(ServiceBusError):
        send(client, f"{queue}/$DeadLetterQueue", "lost")
