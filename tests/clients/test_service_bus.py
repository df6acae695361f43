"""Queues, as the stock Service Bus client for Python uses them."""

import datetime
import uuid

import proton
import pytest
from azure.servicebus import (
    NEXT_AVAILABLE_SESSION,
    ServiceBusClient,
    ServiceBusMessage,
    ServiceBusReceiveMode,
    ServiceBusSubQueue,
)
from azure.servicebus.exceptions import (
    MessagingEntityNotFoundError,
    ServiceBusError,
    ServiceBusQuotaExceededError,
    SessionCannotBeLockedError,
)
from proton.utils import BlockingConnection, LinkDetached

from appliance import PATIENCE_S, Appliance, eventually
from queues import bodies, connection_string, drain, receiver, send


@pytest.fixture
def queue(create_queue):
    return create_queue(maxDeliveryCount=3)


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


def test_a_dead_letter_is_mended_and_keeps_its_properties(appliance, client, queue):
    own = {"tenant": "a"}
    about = {"subject": "paid", "content_type": "application/json", "message_id": "m1"}
    send(client, queue, '{"order": "x"}', application_properties=own, **about)
    with receiver(client, queue) as receiving:
        [message] = receiving.receive_messages()
        receiving.dead_letter_message(message, reason="not a number")
        [dead] = appliance.manage("GET", f"/everpost/deadLetters?topic={queue}")["value"]
        path = f"/everpost/deadLetters/{dead['deliveryId']}/resubmit"
        appliance.manage("POST", path, {"data": {"order": 1}}, status=200)
        [message] = receiving.receive_messages()
        assert (str(message), message.delivery_count) == ('{"order": 1}', 0)
        assert (message.subject, message.content_type, message.message_id) == tuple(about.values())
        assert message.application_properties == {b"tenant": b"a"}
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


@pytest.fixture
def session_queue(create_queue):
    return create_queue(requiresSession=True, maxDeliveryCount=3)


def test_a_session_lasts_as_long_as_somebody_receives_and_deletes(client, create_queue):
    queue = create_queue(requiresSession=True, lockDuration="PT5S")
    mode = ServiceBusReceiveMode.RECEIVE_AND_DELETE
    send(client, queue, "a", session_id="s")
    with client.get_queue_receiver(queue, session_id="s", receive_mode=mode, max_wait_time=7) as receiving:
        assert bodies(receiving) == ["a"], "and then nothing, for longer than the lock lasts"


def test_sessions_survive_a_crash(tmp_path):
    with Appliance(tmp_path / "data") as appliance:
        properties = {"requiresSession": True, "lockDuration": "PT10S"}
        appliance.manage("PUT", "/queues/jobs", {"properties": properties}, status=201)
        string = connection_string(appliance)
        client = ServiceBusClient.from_connection_string(string, retry_total=0)
        send(client, "jobs", *"abc", session_id="s")
        held = receiver(client, "jobs", session_id="s")
        [first] = held.receive_messages(max_message_count=1)
        held.complete_message(first)
        held.session.set_state(b"one done")
        [_] = held.receive_messages(max_message_count=1)
        held.session.renew_lock()
        process, appliance.process = appliance.process, None
        process.kill()
        process.wait()
    with Appliance(tmp_path / "data") as appliance:
        string = connection_string(appliance)
        with ServiceBusClient.from_connection_string(string, retry_total=0) as client:
            with client.get_queue_receiver(
                "jobs", session_id=NEXT_AVAILABLE_SESSION, max_wait_time=15
            ) as receiving:
                assert receiving.session.get_state() == b"one done"
                found = receiving.receive_messages(max_message_count=1)
                assert [(str(each), each.delivery_count) for each in found] == [("b", 1)]
                receiving.complete_message(found[0])
                assert drain(receiving, 1) == ["c"]


def test_what_a_queue_is_cannot_be_changed(appliance, session_queue):
    plain = {"properties": {"requiresSession": False}}
    appliance.manage("PUT", f"/queues/{session_queue}", plain, status=400)


def test_messages_are_forwarded(client, create_queue):
    last = create_queue()
    middle = create_queue(forwardTo=last)
    first = create_queue(forwardTo=f"sb://localhost/{middle}")
    send(client, first, "a", "b", message_id="m")
    later = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=2)
    with client.get_queue_sender(first) as sender:
        [number] = sender.schedule_messages(ServiceBusMessage("late"), later)
    with receiver(client, last) as receiving:
        found = []
        while len(found) < 3:
            messages = receiving.receive_messages(max_message_count=3)
            assert messages, found
            for message in messages:
                receiving.complete_message(message)
            found += messages
        assert bodies(found) == ["a", "b", "late"]
        assert found[0].message_id == "m"
        assert [each.sequence_number for each in found] == [1, 2, 3], "in the last queue"
        assert found[2].enqueued_sequence_number == number == 3, "in the first one"
    with pytest.raises(ServiceBusError, match="auto-forwarding"):
        with receiver(client, first) as receiving:
            receiving.receive_messages()


def test_dead_letters_are_forwarded(client, create_queue):
    graves = create_queue()
    queue = create_queue(forwardDeadLetteredMessagesTo=graves, maxDeliveryCount=1)
    send(client, queue, "bad", "poison")
    with receiver(client, queue) as receiving:
        for message in receiving.receive_messages(max_message_count=2):
            match str(message):
                case "bad":
                    receiving.dead_letter_message(message, reason="broken", error_description="no")
                case "poison":
                    receiving.abandon_message(message)
    with receiver(client, graves) as receiving:
        found = []
        while len(found) < 2:
            messages = receiving.receive_messages(max_message_count=2)
            assert messages, found
            for message in messages:
                receiving.complete_message(message)
            found += messages
    told = {str(each): each for each in found}
    assert told["bad"].application_properties[b"DeadLetterReason"] == b"broken"
    assert told["bad"].dead_letter_error_description == "no"
    assert told["poison"].dead_letter_reason == "MaxDeliveryCountExceeded"
    assert {each.dead_letter_source for each in found} == {queue}
    with pytest.raises(ServiceBusError, match="auto-forwarding"):
        with receiver(client, queue, sub_queue=ServiceBusSubQueue.DEAD_LETTER) as dead:
            dead.receive_messages()


def test_forwarding_ends(appliance, client, create_queue):
    one, two = create_queue(), create_queue()
    for queue, target in [(one, two), (two, one)]:
        properties = {"properties": {"forwardTo": target}}
        appliance.manage("PUT", f"/queues/{queue}", properties, status=201)
    send(client, one, "round")
    with receiver(client, one, sub_queue=ServiceBusSubQueue.DEAD_LETTER) as dead:
        [message] = dead.receive_messages()
        assert message.dead_letter_reason == "MaxTransferHopCountExceeded"
        dead.complete_message(message)
    appliance.manage("DELETE", f"/queues/{two}")
    send(client, one, "nowhere")
    with receiver(client, one, sub_queue=ServiceBusSubQueue.DEAD_LETTER) as dead:
        [message] = dead.receive_messages()
        assert message.dead_letter_reason == "ForwardTargetMissing"
    appliance.command("diff", "-", given=appliance.command("export"))
    for target, status in [(one, 201), ("nobody", 400)]:
        properties = {"properties": {"forwardTo": target}}
        appliance.manage("PUT", f"/queues/{one}", properties, status=status)


def test_the_size_of_a_topic_is_that_of_its_subscriptions(appliance, client):
    topic, large = f"t-{uuid.uuid4()}", b"x" * 300_000
    path = f"/serviceBusTopics/{topic}"
    appliance.manage("PUT", path, {"properties": {"maxSizeInMegabytes": 1}}, status=201)
    for name in ("one", "two"):
        appliance.manage("PUT", f"{path}/subscriptions/{name}", {"properties": {}}, status=201)
    with client.get_topic_sender(topic) as sender:
        sender.send_messages(ServiceBusMessage(large))
        assert 600_000 < appliance.manage("GET", path)["properties"]["sizeInBytes"] < 601_000
        sender.send_messages(ServiceBusMessage(large))
        with pytest.raises(ServiceBusQuotaExceededError):
            sender.send_messages(ServiceBusMessage("more"))
    with client.get_subscription_receiver(topic, "one", max_wait_time=5) as receiving:
        for message in receiving.receive_messages(max_message_count=2):
            receiving.complete_message(message)
    assert appliance.manage("GET", f"{path}/subscriptions/one")["properties"]["sizeInBytes"] == 0
    with client.get_topic_sender(topic) as sender:
        sender.send_messages(ServiceBusMessage("more"))


def test_a_full_queue_is_full_after_a_restart(tmp_path):
    connect = lambda: ServiceBusClient.from_connection_string(connection_string(appliance), retry_total=0)
    with Appliance(tmp_path / "data") as appliance:
        appliance.manage("PUT", "/queues/jobs", {"properties": {"maxSizeInMegabytes": 1}}, status=201)
        with connect() as client:
            send(client, "jobs", b"x" * 1_000_000)
    with Appliance(tmp_path / "data") as appliance:
        with connect() as client, pytest.raises(ServiceBusQuotaExceededError):
            send(client, "jobs", b"x" * 100_000)


def test_an_idle_queue_is_deleted_after_a_restart(tmp_path):
    with Appliance(tmp_path / "data", "--time-scale", "60") as appliance:
        for name, idle in [("short", "PT5M"), ("long", "P1D")]:
            appliance.manage("PUT", f"/queues/{name}", {"properties": {"autoDeleteOnIdle": idle}}, status=201)
    with Appliance(tmp_path / "data", "--time-scale", "60") as appliance:
        names = lambda: [each["name"] for each in appliance.manage("GET", "/queues")["value"]]
        assert "short" in names(), "clients have the time to come back"
        eventually(lambda: names() == ["long"], "the idle queue is deleted")
        appliance.manage("GET", "/queues/short", status=404)


def test_messages_are_shown_sent_and_taken_on_the_command_line(appliance, client, create_queue):
    queue = create_queue(maxDeliveryCount=1)
    run = lambda *words: appliance.command("messages", *words)
    assert "no messages" in run("peek", queue)
    run("send", queue, "--body", '{"total": 5}', "--content-type", "application/json", "--subject", "paid",
        "--message-id", "m1", "--property", "n=7", "--property", "color=red")
    send(client, queue, "plain", message_id="m2")
    send(client, queue, b"\x00\xff", message_id="m3")
    shown = run("peek", queue)
    assert all(each in shown for each in ("m1", "paid", '{"total":5}', "plain", "AP8=")), shown
    [first, *_] = appliance.manage("GET", f"/queues/{queue}/messages")["value"]
    assert first["applicationProperties"] == {"n": 7, "color": "red"}
    assert (first["body"], first["state"], first["deliveryCount"]) == ({"total": 5}, "Active", 0)
    later = appliance.manage("GET", f"/queues/{queue}/messages?from={first['sequenceNumber'] + 1}&limit=1")["value"]
    assert [each["messageId"] for each in later] == ["m2"]
    with receiver(client, queue) as receiving:
        [message] = receiving.receive_messages()
        assert message.application_properties == {b"n": 7, b"color": b"red"}
        receiving.dead_letter_message(message, reason="broken", error_description="no total")
    dead = run("peek", queue, "--dead-letters")
    assert "broken" in dead and "no total" in dead and "plain" not in dead
    taken = run("receive", queue, "--count", "9")
    assert "plain" in taken and "AP8=" in taken and "no messages" in run("receive", queue)
    assert "broken" in run("receive", queue, "--dead-letters")
    assert "no dead letters" in run("peek", queue, "--dead-letters")
    [entry, *_] = appliance.manage("GET", "/everpost/audit?action=CompleteDeadLetters&limit=1")["value"]
    assert queue in entry["target"]


def test_messages_of_subscriptions_are_shown_and_taken(appliance, client):
    topic = f"t-{uuid.uuid4()}"
    appliance.manage("PUT", f"/serviceBusTopics/{topic}", {"properties": {}}, status=201)
    appliance.manage("PUT", f"/serviceBusTopics/{topic}/subscriptions/all", {"properties": {}}, status=201)
    appliance.command("messages", "send", topic, "--body", "hello")
    words = ("all", "--topic", topic)
    assert "hello" in appliance.command("messages", "peek", *words)
    assert "hello" in appliance.command("messages", "receive", *words)
    assert "no messages" in appliance.command("messages", "peek", *words)


def test_messages_of_sessions_are_not_taken_without_one(appliance, client, create_queue):
    queue = create_queue(requiresSession=True)
    appliance.command("messages", "send", queue, "--body", "a", "--session-id", "s1")
    assert "s1" in str(appliance.manage("GET", f"/queues/{queue}/messages?session=s1")["value"])
    assert appliance.manage("GET", f"/queues/{queue}/messages?session=s2")["value"] == []
    rejected = appliance.manage("POST", f"/queues/{queue}/receive", {}, status=400)
    assert "session" in str(rejected)


@pytest.mark.guesses
def test_plain_credentials_are_those_of_an_access_rule(appliance, client, create_queue):
    own, other = create_queue(), create_queue()
    rule = f"{own}%2Fworker"
    appliance.manage("PUT", f"/everpost/accessRules/{rule}", {"rights": ["Send"]})
    keys = appliance.manage("POST", f"/everpost/accessRules/{rule}/listKeys")

    def connect(key):
        url = appliance.url.replace("http://", "amqp://")
        return BlockingConnection(url, user="worker", password=key, allowed_mechs="PLAIN", timeout=PATIENCE_S)

    connection = connect(keys["key2"])
    connection.create_sender(own).send(proton.Message(body=b"hello", inferred=True))
    for rejected in (lambda: connection.create_sender(other), lambda: connection.create_receiver(own)):
        with pytest.raises(LinkDetached, match="unauthorized-access"):
            rejected()
    connection.close()
    with pytest.raises(proton.ConnectionException, match="unauthorized"):
        connect("wrong")
    with receiver(client, own) as receiving:
        assert bodies(receiving.receive_messages()) == ["hello"]
