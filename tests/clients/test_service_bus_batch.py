"""Batches of messages, as the stock Service Bus client for Python sends them."""

import datetime
import os

import pytest
from azure.servicebus import ServiceBusMessage, ServiceBusReceiveMode
from azure.servicebus.exceptions import MessageSizeExceededError, ServiceBusError

from queues import SIZES, bodies, over_all_transports, received, receiver

pytestmark = over_all_transports


@pytest.fixture
def queue(create_queue):
    return create_queue(maxDeliveryCount=3)


def test_a_full_batch_is_taken_with_the_properties_of_its_messages(client, queue):
    with client.get_queue_sender(queue) as sender:
        batch = sender.create_message_batch()
        count = 0
        while True:
            try:
                batch.add_message(ServiceBusMessage("x" * 50, message_id=f"{count:0100}", session_id="s" * 100))
            except ValueError:
                break
            count += 1
        assert batch.size_in_bytes > batch.max_size_in_bytes - 400
        sender.send_messages(batch)
    with receiver(client, queue, receive_mode=ServiceBusReceiveMode.RECEIVE_AND_DELETE) as receiving:
        found = 0
        while found < count:
            found += len(receiving.receive_messages(max_message_count=500)) or pytest.fail(f"{found} of {count}")


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


def send_batch(client, queue, *messages, **options):
    with client.get_queue_sender(queue) as sender:
        batch = sender.create_message_batch(**options)
        for message in messages:
            batch.add_message(message)
        sender.send_messages(batch)
    return batch


@pytest.mark.parametrize("size", SIZES)
def test_messages_of_a_batch_keep_what_is_their_own(client, queue, size):
    large = "x" * size
    messages = [
        ServiceBusMessage(f"{number}{large}", message_id=f"m{number}", subject=f"s{number}", application_properties={"n": number})
        for number in range(3)
    ]
    batch = send_batch(client, queue, *messages)
    assert len(batch) == 3 and batch.size_in_bytes > 3 * size
    found = received(client, queue, 3)
    assert [(each.message_id, each.subject) for each in found] == [(f"m{number}", f"s{number}") for number in range(3)]
    assert [each.application_properties for each in found] == [{b"n": number} for number in range(3)]
    assert bodies(found) == [f"{number}{large}" for number in range(3)]


def test_a_batch_takes_no_more_than_it_is_meant_to(client, queue):
    with client.get_queue_sender(queue) as sender:
        batch = sender.create_message_batch(max_size_in_bytes=500)
        batch.add_message(ServiceBusMessage("x" * 100))
        with pytest.raises(MessageSizeExceededError):
            batch.add_message(ServiceBusMessage("x" * 500))
        sender.send_messages(batch)
        largest = sender.create_message_batch().max_size_in_bytes
        assert largest == 1_048_576
        with pytest.raises(ValueError):
            sender.create_message_batch(max_size_in_bytes=largest + 1)
    assert bodies(received(client, queue, 1)) == ["x" * 100]


def test_a_batch_is_sent_twice(client, queue):
    with client.get_queue_sender(queue) as sender:
        batch = sender.create_message_batch()
        batch.add_message(ServiceBusMessage("a"))
        for _ in range(2):
            sender.send_messages(batch)
    assert bodies(received(client, queue, 2)) == ["a", "a"]


def test_a_batch_is_stored_whole_or_not_at_all(client, create_queue):
    queue = create_queue(requiresSession=True)
    good, bad = ServiceBusMessage("a", session_id="s"), ServiceBusMessage("b")
    with pytest.raises(ServiceBusError, match="The SessionId was not set"):
        send_batch(client, queue, good, bad)
    with receiver(client, queue, session_id="s") as receiving:
        assert receiving.peek_messages() == []
    send_batch(client, queue, good, ServiceBusMessage("b", session_id="s"))
    assert bodies(received(client, queue, 2, session_id="s")) == ["a", "b"]


def test_messages_of_a_batch_are_scheduled_each_for_its_time(client, queue):
    later = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1)
    send_batch(client, queue, ServiceBusMessage("later", scheduled_enqueue_time_utc=later), ServiceBusMessage("now"))
    assert bodies(received(client, queue, 1)) == ["now"]
    with receiver(client, queue) as receiving:
        assert bodies(receiving.peek_messages(max_message_count=2)) == ["later"]


def test_a_batch_has_so_many_messages_at_most(client, queue):
    with pytest.raises(ServiceBusError, match="4,?500"):
        send_batch(client, queue, *(ServiceBusMessage("") for _ in range(4_501)))
    with receiver(client, queue) as receiving:
        assert receiving.peek_messages() == []
