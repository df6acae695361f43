"""Deleting and purging messages, as the stock Service Bus client for Python can ask for it."""

import time

import pytest
from azure.servicebus import ServiceBusReceiveMode, ServiceBusSubQueue
from azure.servicebus.exceptions import MessagingEntityNotFoundError

from appliance import eventually
from queues import SIZES, bodies, drain, manage, over_all_transports, received, receiver, send, take

pytestmark = over_all_transports


@pytest.fixture
def queue(create_queue):
    return create_queue(maxDeliveryCount=3)


def delete(receiving, count, before_s=60, **more):
    """How many messages were deleted of those that were sent before in so many seconds."""
    before = {"TYPE": "TIMESTAMP", "VALUE": int((time.time() + before_s) * 1_000)}
    answer = manage(receiving, "batch-delete-messages", {"message-count": count, "enqueued-time-utc": before, **more})
    return answer[b"message-count"] if answer else 0


def purge(receiving):
    """What the clients that have a function for it do: they delete until there is nothing more."""
    counts = []
    while counts[-1:] != [0]:
        counts.append(delete(receiving, 4_000))
    return sum(counts)


def test_messages_are_deleted_at_once(client, queue):
    send(client, queue, *"abcde")
    with receiver(client, queue) as receiving:
        [held] = receiving.receive_messages(max_message_count=1)
        assert delete(receiving, 3, before_s=-3_600) == 0, "none is as old as that"
        assert delete(receiving, 3) == 3
        assert delete(receiving, 3) == 1
        assert delete(receiving, 3) == 0
        receiving.abandon_message(held)
        assert bodies(receiving.receive_messages()) == ["a"], "what is locked stays"


@pytest.mark.parametrize("size", SIZES)
def test_a_queue_is_purged(client, queue, size):
    send(client, queue, *["x" * size] * 3)
    send(client, queue, *["y"] * 20)
    with receiver(client, queue) as receiving:
        assert purge(receiving) == 23
        assert receiving.peek_messages() == []
        send(client, queue, "new")
        assert drain(receiving, 1) == ["new"]


def test_a_queue_is_purged_by_receiving_and_deleting(client, queue):
    send(client, queue, *["x"] * 50)
    mode = ServiceBusReceiveMode.RECEIVE_AND_DELETE
    with client.get_queue_receiver(queue, receive_mode=mode, max_wait_time=1, prefetch_count=20) as receiving:
        assert len(list(receiving)) == 50
        assert receiving.peek_messages() == []


def test_a_dead_letter_queue_is_purged(client, queue):
    send(client, queue, *"ab")
    with receiver(client, queue) as receiving:
        for message in take(receiving, 2):
            receiving.dead_letter_message(message)
    with receiver(client, queue, sub_queue=ServiceBusSubQueue.DEAD_LETTER) as dead:
        assert purge(dead) == 2
        assert dead.peek_messages() == []


def test_a_session_is_purged_alone(client, create_queue):
    queue = create_queue(requiresSession=True)
    for session in "st":
        send(client, queue, *"ab", session_id=session)
    with receiver(client, queue, session_id="s") as receiving:
        assert delete(receiving, 9, **{"session-id": "s"}) == 2
        assert receiving.peek_messages() == []
    assert bodies(received(client, queue, 2, session_id="t")) == ["a", "b"]


def test_what_cannot_be_deleted_is_told(client, queue):
    def answered(status, message, description, **_):
        return status, description

    with receiver(client, queue) as receiving:
        ask = receiving._mgmt_request_response_with_retry
        status, description = ask(b"com.microsoft:batch-delete-messages", {"message-count": 1}, answered)
    assert (status, description) == (400, b"enqueued-time-utc is missing")


def test_links_end_with_their_queue(appliance, client, queue):
    send(client, queue, "a")
    with receiver(client, queue) as receiving:
        [_] = receiving.receive_messages()
        appliance.manage("DELETE", f"/queues/{queue}")

        def ended():
            try:
                receiving.receive_messages(max_wait_time=2)
            except MessagingEntityNotFoundError:
                return True

        eventually(ended, "the receiver is told that its queue is gone")
