"""What time does to messages, as the stock Service Bus client for Python sees it. The clock is that of `everpost dev`."""

import datetime
from concurrent.futures import ThreadPoolExecutor

import pytest
from azure.servicebus import NEXT_AVAILABLE_SESSION, ServiceBusMessage, ServiceBusSubQueue
from azure.servicebus.exceptions import MessageLockLostError, ServiceBusError, SessionLockLostError

from appliance import DevAppliance, eventually
from queues import drain, receiver, send
from test_service_bus_topics import Topic, sql

# How long a receiver waits to see that there is nothing. A slow machine may miss a fault, but reports none.
NOTHING_S = 0.3


@pytest.fixture(scope="module")
def appliance():
    with DevAppliance() as appliance:
        yield appliance


def test_locks_are_renewed_and_lost(appliance, client, create_queue):
    queue = create_queue(lockDuration="PT5S")
    send(client, queue, "slow")
    with receiver(client, queue) as receiving:
        [message] = receiving.receive_messages()
        for _ in range(2):
            before = message.locked_until_utc
            appliance.advance(3)
            receiving.renew_message_lock(message)
            assert message.locked_until_utc > before
        appliance.advance(6)
        with pytest.raises(MessageLockLostError):
            receiving.complete_message(message)
        [again] = receiving.receive_messages()
        assert again.delivery_count == 1
        with receiver(client, queue) as other:
            receiving.complete_message(again)
            assert other.receive_messages(max_wait_time=NOTHING_S) == []


def test_scheduled_messages_come_later_or_never(appliance, client, create_queue):
    queue = create_queue()
    now = datetime.datetime.fromisoformat(appliance.advance(0)["now"])
    with client.get_queue_sender(queue) as sender:
        late = now + datetime.timedelta(hours=1)
        numbers = sender.schedule_messages([ServiceBusMessage("a"), ServiceBusMessage("b")], late)
        assert len(numbers) == 2
        sender.cancel_scheduled_messages(numbers)
        with pytest.raises(ServiceBusError):
            sender.cancel_scheduled_messages(numbers)
        with receiver(client, queue) as receiving:
            soon = now + datetime.timedelta(minutes=5)
            sender.schedule_messages(ServiceBusMessage("soon"), soon)
            assert receiving.receive_messages(max_wait_time=NOTHING_S) == []
            appliance.advance(300)
            [message] = receiving.receive_messages()
            assert str(message) == "soon" and message.enqueued_time_utc >= soon
            receiving.complete_message(message)


def test_scheduled_messages_of_a_topic_come_later_in_all_their_copies(appliance, client):
    topic = Topic(appliance, client)
    topic.subscription("all", {"filterType": "TrueFilter"}, sql("1=1", "SET again = 1"))
    now = datetime.datetime.fromisoformat(appliance.advance(0)["now"])
    later = now + datetime.timedelta(minutes=5)
    topic.send(ServiceBusMessage("later", scheduled_enqueue_time_utc=later))
    with topic.receiver("all") as receiving:
        assert receiving.receive_messages(max_wait_time=NOTHING_S) == []
        appliance.advance(300)
        assert drain(receiving, 2) == ["later", "later"]


@pytest.mark.parametrize(
    "queue_lives, message_lives",
    [(None, datetime.timedelta(seconds=1)), ("PT1S", None), ("PT1S", datetime.timedelta(hours=1))],
)
def test_messages_expire_by_their_own_time_or_by_the_queues(
    appliance, client, create_queue, queue_lives, message_lives
):
    lives = {"defaultMessageTimeToLive": queue_lives} if queue_lives else {}
    keeping, dropping = (
        create_queue(deadLetteringOnMessageExpiration=keeps, **lives) for keeps in (True, False)
    )
    for queue in (keeping, dropping):
        send(client, queue, "late", time_to_live=message_lives)
    appliance.advance(2)
    for queue, expected in [(keeping, ["TTLExpiredException"]), (dropping, [])]:
        with receiver(client, queue) as receiving:
            assert receiving.receive_messages(max_wait_time=NOTHING_S) == []
        with receiver(client, queue, sub_queue=ServiceBusSubQueue.DEAD_LETTER) as dead:
            found = dead.receive_messages(max_wait_time=None if expected else NOTHING_S)
            assert [message.dead_letter_reason for message in found] == expected


def test_a_session_is_lost_and_its_messages_keep_their_order(appliance, client, create_queue):
    queue = create_queue(requiresSession=True, lockDuration="PT5S")
    send(client, queue, *"abc", session_id="s")
    with receiver(client, queue, session_id="s") as receiving:
        [message] = receiving.receive_messages(max_message_count=1)
        appliance.advance(4)
        receiving.session.renew_lock()
        appliance.advance(3)
        receiving.complete_message(message)
        [message] = receiving.receive_messages(max_message_count=1)
        appliance.advance(6)
        with pytest.raises(SessionLockLostError):
            receiving.session.renew_lock()
        with receiver(client, queue, session_id=NEXT_AVAILABLE_SESSION) as other:
            [again] = other.receive_messages(max_message_count=1)
            assert (str(again), again.delivery_count) == ("b", 1)
            other.complete_message(again)
            assert drain(other, 1) == ["c"]


def test_duplicates_are_dropped(appliance, client, create_queue):
    queue = create_queue(
        requiresDuplicateDetection=True, duplicateDetectionHistoryTimeWindow="PT20S"
    )
    send(client, queue, "first", message_id="a")
    send(client, queue, "second", message_id="a")
    send(client, queue, "third", message_id="b")
    with receiver(client, queue) as receiving:
        assert drain(receiving, 2) == ["first", "third"]
        send(client, queue, "after it was completed", message_id="a")
        assert receiving.receive_messages(max_wait_time=NOTHING_S) == []
        with client.get_queue_sender(queue) as sender:
            batch = [ServiceBusMessage(each, message_id=each) for each in "cdc"]
            sender.send_messages(batch)
            now = datetime.datetime.fromisoformat(appliance.advance(0)["now"])
            late = now + datetime.timedelta(hours=1)
            scheduled = [ServiceBusMessage(each, message_id=each) for each in "cec"]
            assert len(sender.schedule_messages(scheduled, late)) == 3, "one number for each"
            assert len(sender.schedule_messages(scheduled[0], late)) == 1
        assert drain(receiving, 2) == ["c", "d"]
        appliance.advance(20)
        send(client, queue, "later", message_id="a")
        assert drain(receiving, 1) == ["later"]


def names_of(appliance, path):
    return [each["name"] for each in appliance.manage("GET", path)["value"]]


def test_what_is_idle_is_deleted(appliance, client, create_queue):
    """Everything may be idle for ten minutes. The clock goes on by six and by five, and then by six again."""
    appliance.advance(300)  # clients have had the time to come back after the start
    idle = {"autoDeleteOnIdle": "PT10M"}
    unused, sent, received, locked, awaited, ahead = (create_queue(**idle) for _ in range(6))
    forwarding, lasting = create_queue(forwardTo=ahead, **idle), create_queue()
    topic = Topic(appliance, client, "idle-topic", **idle)
    topic.subscription("used", **idle)
    topic.subscription("unused", **idle)
    send(client, locked, "slow")
    with receiver(client, locked) as holding, receiver(client, received) as receiving, receiver(client, awaited) as waiting:
        [message] = holding.receive_messages()
        with ThreadPoolExecutor(1) as waiter:
            last = waiter.submit(waiting.receive_messages, max_wait_time=30)
            used = topic.receiver("used")
            for seconds in (360, 300):
                send(client, sent, "again")
                topic.send(ServiceBusMessage("again"))
                receiving.receive_messages(max_wait_time=NOTHING_S)
                used.receive_messages(max_message_count=1)
                appliance.manage("PUT", f"/queues/{ahead}", {"properties": idle}, status=201)
                holding.peek_messages()
                appliance.advance(seconds)
            eventually(lambda: unused not in names_of(appliance, "/queues"), "the unused queue is deleted")
            eventually(lambda: names_of(appliance, f"{topic.path}/subscriptions") == ["used"], "so is the subscription")
            left = names_of(appliance, "/queues")
            assert {sent, received, locked, awaited, ahead, forwarding, lasting} <= set(left)
            assert topic.name in names_of(appliance, "/serviceBusTopics")
            send(client, awaited, "at last")
            assert last.result()
    appliance.advance(660)
    for gone in (sent, received, locked, awaited, ahead):
        eventually(lambda: gone not in names_of(appliance, "/queues"), f"{gone} is deleted")
    eventually(lambda: topic.name not in names_of(appliance, "/serviceBusTopics"), "the topic is deleted")
    assert {forwarding, lasting} <= set(names_of(appliance, "/queues"))
    entries = appliance.manage("GET", f"/everpost/audit?target={sent}")["value"]
    assert [(entry["action"], entry["actorKind"]) for entry in entries][0] == ("Delete", "Appliance")
