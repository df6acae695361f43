"""Topics and their subscriptions, as the stock Service Bus client for Python uses them."""

import uuid
from datetime import datetime, timedelta, timezone

import pytest
from azure.servicebus import ServiceBusMessage, ServiceBusSubQueue
from azure.servicebus.exceptions import MessagingEntityNotFoundError, ServiceBusError

from queues import SIZES, WAIT_S, bodies, drain, over_all_transports, take
from test_service_bus_topics import Topic, order, sql, topic  # noqa: F401

pytestmark = over_all_transports


@pytest.mark.parametrize("size", SIZES)
def test_copies_are_settled_by_each_subscription_for_itself(topic, size):
    body = "x" * size
    for name in ("first", "second"):
        topic.subscription(name, maxDeliveryCount=1)
    topic.send(ServiceBusMessage(body))
    with topic.receiver("first") as first, topic.receiver("second") as second:
        [copy] = take(first, 1)
        first.dead_letter_message(copy, reason="broken")
        [copy] = take(second, 1)
        assert str(copy) == body
        second.complete_message(copy)
        assert second.peek_messages(sequence_number=1) == []
    with topic.receiver("first", sub_queue=ServiceBusSubQueue.DEAD_LETTER) as dead:
        [message] = dead.receive_messages()
        assert (str(message), message.dead_letter_reason) == (body, "broken")
        dead.complete_message(message)


def test_every_subscription_has_its_copies(topic):
    for name in ("first", "second"):
        topic.subscription(name)
    topic.send(*(ServiceBusMessage(each) for each in "abc"))
    assert topic.drain("first", 3) == ["a", "b", "c"]
    assert topic.drain("second", 3) == ["a", "b", "c"]
    with pytest.raises(ServiceBusError, match="received from its subscriptions"):
        with topic.client.get_queue_receiver(topic.name, max_wait_time=1) as receiving:
            receiving.receive_messages()
    with pytest.raises(ServiceBusError, match="Cannot create a message sender"):
        with topic.client.get_queue_sender(f"{topic.name}/Subscriptions/first") as sender:
            sender.send_messages(ServiceBusMessage("lost"))
    with pytest.raises(MessagingEntityNotFoundError):
        with topic.receiver("third") as receiving:
            receiving.receive_messages()


def test_messages_of_subscriptions_are_settled(topic):
    topic.subscription("all", maxDeliveryCount=2)
    topic.send(*(ServiceBusMessage(each) for each in ("poison", "bad", "later", "good")))
    with topic.receiver("all") as receiving:
        for _ in range(2):
            [poison] = receiving.receive_messages(max_message_count=1)
            assert str(poison) == "poison"
            receiving.abandon_message(poison)
        [bad] = receiving.receive_messages(max_message_count=1)
        receiving.dead_letter_message(bad, reason="broken")
        [later] = receiving.receive_messages(max_message_count=1)
        receiving.defer_message(later)
        assert drain(receiving, 1) == ["good"]
        [later] = receiving.receive_deferred_messages(later.sequence_number)
        receiving.complete_message(later)
    with topic.receiver("all", sub_queue=ServiceBusSubQueue.DEAD_LETTER) as dead:
        found = dead.peek_messages(max_message_count=9)
        assert bodies(found) == ["poison", "bad"]
        assert [each.dead_letter_reason for each in found] == ["MaxDeliveryCountExceeded", "broken"]
    shown = topic.appliance.manage("GET", f"{topic.path}/subscriptions/all")["properties"]
    counts = shown["countDetails"]
    assert (counts["activeMessageCount"], counts["deadLetterMessageCount"]) == (0, 2)


def test_subscriptions_have_sessions(topic):
    topic.subscription("steps", requiresSession=True)
    topic.subscription("all")
    topic.send(ServiceBusMessage("a", session_id="s"), ServiceBusMessage("b"))
    assert topic.drain("all", 2) == ["a", "b"]
    with topic.receiver("steps", session_id="s") as receiving:
        assert drain(receiving, 1) == ["a"]
        topic.send(ServiceBusMessage("c", session_id="s"))
        assert drain(receiving, 1) == ["c"]
    with topic.receiver("steps", sub_queue=ServiceBusSubQueue.DEAD_LETTER) as dead:
        [message] = dead.receive_messages()
        assert (str(message), message.dead_letter_reason) == ("b", "Session ID is null.")


def test_a_subscription_forwards_to_a_queue(topic, create_queue):
    queue, graves = create_queue(), create_queue()
    topic.subscription("jobs", forwardTo=queue)
    topic.subscription("dead", forwardDeadLetteredMessagesTo=graves)
    topic.send(ServiceBusMessage("a", message_id="m"))
    with topic.client.get_queue_receiver(queue, max_wait_time=WAIT_S) as receiving:
        assert drain(receiving, 1) == ["a"]
    with topic.receiver("dead") as receiving:
        [message] = receiving.receive_messages()
        receiving.dead_letter_message(message, reason="no")
    with topic.client.get_queue_receiver(graves, max_wait_time=WAIT_S) as receiving:
        [message] = receiving.receive_messages()
        source = message.raw_amqp_message.annotations[b"x-opt-deadletter-source"]
        assert source == f"{topic.name}/Subscriptions/dead".encode()
        receiving.complete_message(message)
    with pytest.raises(ServiceBusError, match="auto-forwarding"):
        with topic.receiver("jobs") as receiving:
            receiving.receive_messages()


def test_queues_and_subscriptions_forward_to_a_topic(appliance, client, topic, create_queue):
    queue = create_queue(forwardTo=topic.name)
    other = Topic(appliance, client, f"t-{uuid.uuid4()}")
    other.subscription("onward", forwardTo=topic.name, forwardDeadLetteredMessagesTo=topic.name)
    topic.subscription("red", sql("color = 'red'"))
    topic.subscription("blue", sql("color = 'red'", "SET color = 'blue'"))
    with client.get_queue_sender(queue) as sender:
        sender.send_messages([order("a", "x", color="red"), order("b", "x", color="green")])
    other.send(order("c", "x", color="red"))
    assert sorted(topic.drain("red", 2)) == ["a", "c"]
    with topic.receiver("blue") as receiving:
        found = [each.application_properties[b"color"] for each in receiving.receive_messages(2, WAIT_S)]
    assert found and set(found) == {b"blue"}


def test_a_topic_detects_duplicates(appliance, client):
    topic = Topic(appliance, client, f"t-{uuid.uuid4()}", requiresDuplicateDetection=True)
    topic.subscription("all")
    topic.subscription("copies", sql("1=1", "SET sys.Label = 'copy'"))
    for body in "ab":
        topic.send(ServiceBusMessage(body, message_id="m"), ServiceBusMessage(body, message_id=body))
    for name in ("all", "copies"):
        assert topic.drain(name, 3) == ["a", "a", "b"]


def test_messages_are_scheduled_in_a_topic_and_cancelled(topic):
    for name in ("first", "second"):
        topic.subscription(name)
    later = datetime.now(timezone.utc) + timedelta(hours=1)
    soon = datetime.now(timezone.utc) + timedelta(seconds=2)
    with topic.client.get_topic_sender(topic.name) as sender:
        never = sender.schedule_messages([ServiceBusMessage("x"), ServiceBusMessage("y")], later)
        assert len(set(never)) == 2
        [number] = sender.schedule_messages(ServiceBusMessage("a"), soon)
        sender.cancel_scheduled_messages(never)
        with pytest.raises(ServiceBusError, match="not that of a scheduled message"):
            sender.cancel_scheduled_messages(never[0])
    for name in ("first", "second"):
        with topic.receiver(name) as receiving:
            [message] = receiving.receive_messages()
            assert (str(message), message.enqueued_sequence_number) == ("a", number)
            assert [str(each) for each in receiving.peek_messages(9, sequence_number=1)] == ["a"]
