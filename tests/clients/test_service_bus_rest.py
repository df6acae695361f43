"""Queues, topics and subscriptions over Service Bus' REST API, with plain HTTP and beside the stock client over AMQP."""

import json
import threading
import time
import uuid

import pytest
import requests
from azure.servicebus import ServiceBusMessage, ServiceBusSubQueue

from appliance import PATIENCE_S, Appliance
from queues import bodies, connect, receiver, send, token

BATCH = "application/vnd.microsoft.servicebus.json"


class Rest:
    """A client of one queue, topic or subscription."""

    def __init__(self, appliance, path):
        self.url = f"{appliance.url}/{path}"
        self.authorization = token(self.url, appliance.token)

    def ask(self, method, below, body=None, url=None, **headers):
        headers = {"Authorization": self.authorization, **headers}
        url = url or f"{self.url}/messages{below}"
        return requests.request(method, url, data=body, headers=headers, timeout=PATIENCE_S)

    def send(self, body, content_type="text/plain", status=201, broker=None, **headers):
        if broker is not None:
            headers["BrokerProperties"] = json.dumps(broker)
        answer = self.ask("POST", "", body, **{"Content-Type": content_type, **headers})
        assert answer.status_code == status, answer.text
        return answer

    def peek_lock(self, wait_s=0):
        return self.ask("POST", f"/head?timeout={wait_s}")

    def take(self, wait_s=0):
        return self.ask("DELETE", f"/head?timeout={wait_s}")


@pytest.fixture
def queue(create_queue):
    return create_queue(lockDuration="PT30S", maxDeliveryCount=2)


@pytest.fixture
def rest(appliance, queue):
    return Rest(appliance, queue)


def broker(answer):
    return json.loads(answer.headers["BrokerProperties"])


def test_what_is_sent_over_http_is_received_over_amqp(client, queue, rest):
    properties = {"Label": "paid", "MessageId": "m1", "CorrelationId": "c", "To": "t", "ReplyTo": "r", "TimeToLive": 300}
    rest.send("grün".encode(), "text/plain; charset=utf-8", broker=properties, color='"r\\u00fcd"', total="7", half="0.5", yes="true")
    with receiver(client, queue) as receiving:
        [message] = receiving.receive_messages()
        assert b"".join(message.body).decode() == "grün"
        assert (message.subject, message.message_id, message.correlation_id) == ("paid", "m1", "c")
        assert (message.to, message.reply_to, message.content_type) == ("t", "r", "text/plain; charset=utf-8")
        assert message.time_to_live.total_seconds() == 300
        own = message.application_properties
        assert own == {b"color": "rüd".encode(), b"total": 7, b"half": 0.5, b"yes": True}
        receiving.complete_message(message)


def test_what_is_sent_over_amqp_is_received_over_http(client, queue, rest):
    send(client, queue, "a", subject="paid", message_id="m1", content_type="text/plain",
         application_properties={"Color": "röt", "total": 7, "yes": True})
    answer = rest.peek_lock()
    assert answer.status_code == 201 and answer.text == "a"
    assert answer.headers["Content-Type"] == "text/plain"
    properties = broker(answer)
    assert (properties["Label"], properties["MessageId"], properties["DeliveryCount"]) == ("paid", "m1", 1)
    assert properties["State"] == "Active" and properties["EnqueuedTimeUtc"].endswith("GMT")
    assert json.loads(answer.headers["color"]) == "röt"
    assert (answer.headers["total"], answer.headers["yes"]) == ("7", "true")
    assert answer.headers["Location"].endswith(f"/messages/{properties['SequenceNumber']}/{properties['LockToken']}")


def test_locks_are_renewed_abandoned_and_completed(rest):
    rest.send("a", broker={"MessageId": "one"})
    first = rest.peek_lock()
    location = first.headers["Location"]
    assert rest.peek_lock().status_code == 204, "it is locked"
    assert rest.ask("POST", "", url=location).status_code == 200, "renewed"
    assert rest.ask("PUT", "", url=location).status_code == 200, "abandoned"
    for method in ("POST", "PUT", "DELETE"):
        assert rest.ask(method, "", url=location).status_code == 404, method
    second = rest.peek_lock()
    assert broker(second)["DeliveryCount"] == 2
    by_id = f"/one/{broker(second)['LockToken']}"
    assert rest.ask("DELETE", f"/other/{broker(second)['LockToken']}").status_code == 404
    assert rest.ask("DELETE", by_id).status_code == 200, "completed"
    assert rest.take().status_code == 204


def test_a_batch_is_stored_whole_and_taken_in_order(rest):
    batch = [
        {"Body": "a", "BrokerProperties": {"Label": "first"}, "UserProperties": {"Priority": "high"}},
        {"Body": "b"},
        {"Body": "c", "BrokerProperties": {"TimeToLive": "00:05:00"}},
    ]
    rest.send(json.dumps(batch), BATCH)
    taken = [rest.take() for _ in batch]
    assert [each.text for each in taken] == ["a", "b", "c"]
    assert [each.status_code for each in taken] == [200] * 3
    assert "Location" not in taken[0].headers and "LockToken" not in broker(taken[0])
    assert broker(taken[0])["Label"] == "first" and taken[0].headers["Priority"] == '"high"'
    bad = [{"Body": "x"}, {"Body": "y", "BrokerProperties": {"TimeToLive": "soon"}}]
    assert "TimeToLive must be" in rest.send(json.dumps(bad), BATCH, status=400).text
    long = "[" + "{}," * 4_501 + "no JSON behind what may be sent"
    assert "takes up to 4500 messages" in rest.send(long, BATCH, status=403).text
    assert rest.take().status_code == 204


def test_a_full_queue_answers_403(appliance, create_queue):
    rest = Rest(appliance, create_queue(maxSizeInMegabytes=1))
    rest.send("x" * 1_000_000)
    assert "is full" in rest.send("x" * 100_000, status=403).text
    assert rest.take().status_code == 200
    rest.send("x" * 100_000)


def test_whoever_waits_gets_the_next_one(rest):
    answers = []
    waiting = threading.Thread(target=lambda: answers.append(rest.take(wait_s=60)))
    waiting.start()
    begun = time.monotonic()
    rest.send("late")
    waiting.join(PATIENCE_S)
    assert answers[0].text == "late" and time.monotonic() - begun < 50


def test_dead_letters_of_a_queue(client, queue, rest, appliance):
    rest.send("a")
    for _ in range(2):
        assert rest.ask("PUT", "", url=rest.peek_lock().headers["Location"]).ok
    assert rest.take().status_code == 204
    dead = Rest(appliance, f"{queue}/$DeadLetterQueue")
    answer = dead.peek_lock(wait_s=5)
    assert answer.status_code == 201 and answer.text == "a"
    assert json.loads(answer.headers["DeadLetterReason"]) == "MaxDeliveryCountExceeded"
    assert "Nobody sends to a dead-letter queue" in dead.send("b", status=400).text
    assert dead.ask("DELETE", "", url=answer.headers["Location"]).ok
    with client.get_queue_receiver(queue, sub_queue=ServiceBusSubQueue.DEAD_LETTER, max_wait_time=1) as receiving:
        assert receiving.peek_messages() == []


def test_a_topic_and_its_subscriptions(appliance):
    topic = f"t-{uuid.uuid4()}"
    appliance.manage("PUT", f"/serviceBusTopics/{topic}", {"properties": {}}, status=201)
    path = f"/serviceBusTopics/{topic}/subscriptions/some"
    appliance.manage("PUT", path, {"properties": {}}, status=201)
    large = {"properties": {"sqlFilter": {"sqlExpression": "total > 100"}}}
    appliance.manage("PUT", f"{path}/rules/large", large, status=201)
    appliance.manage("DELETE", f"{path}/rules/$Default")
    sending, some = Rest(appliance, topic), Rest(appliance, f"{topic}/subscriptions/some")
    sending.send("7", total="7")
    sending.send("700", total="700")
    assert some.take().text == "700"
    assert some.take().status_code == 204
    assert "received from its subscriptions" in sending.peek_lock().text
    assert "send to its topic" in some.send("x", status=400).text


def test_scheduled_messages_come_later(client, queue, rest):
    rest.send("later", broker={"ScheduledEnqueueTimeUtc": "Tue, 01 Jan 2999 00:00:00 GMT"})
    assert rest.take().status_code == 204
    with receiver(client, queue) as receiving:
        assert bodies(receiving.peek_messages()) == ["later"]


def test_sessions_and_forwarding_are_told(appliance, create_queue):
    steps = Rest(appliance, create_queue(requiresSession=True))
    assert "SessionId" in steps.send("a", status=400).text
    steps.send("a", broker={"SessionId": "s"})
    assert steps.peek_lock().status_code == 400
    onward = Rest(appliance, create_queue(forwardTo=create_queue()))
    assert "auto-forwarding" in onward.peek_lock().text


@pytest.mark.guesses
def test_a_key_of_the_queue_opens_it_alone(appliance, queue, rest, create_queue):
    keys = appliance.manage("POST", f"/topics/{queue}/listKeys")
    rest.authorization = token(rest.url, keys["key1"], rule="key1")
    rest.send("a")
    assert rest.take().text == "a"
    other = Rest(appliance, create_queue())
    other.authorization = rest.authorization
    other.send("x", status=401)
    operations = [("POST", ""), ("POST", "/head"), ("DELETE", "/head"), ("PUT", "/1/x")]
    expired = token(rest.url, appliance.token, expires_in_s=-1)
    # Fewer wrong keys than make a client wait.
    guesses = [("Bearer wrong", operations[:3]), (token(rest.url, "wrong"), operations[1:])]
    for authorization, asked in [("", operations), (expired, operations), *guesses]:
        rest.authorization = authorization
        for method, below in asked:
            assert rest.ask(method, below).status_code == 401, (method, below, authorization)
    rest.authorization = f"Bearer {appliance.token}"
    rest.send("b")
    assert rest.take().text == "b"


def test_what_cannot_be_is_told(appliance, rest):
    missing = Rest(appliance, "missing-queue")
    assert missing.send("a", status=404).text.startswith("<Error><Code>404</Code>")
    assert missing.take().status_code == 404
    assert "object in JSON" in rest.send("a", status=400, BrokerProperties="{").text
    assert "must be a number of seconds" in rest.send("a", status=400, broker={"TimeToLive": "soon"}).text
    assert "array of objects" in rest.send("{}", BATCH, status=400).text
    assert "1048576 bytes" in rest.send("x" * 1_048_577, status=403).text
    assert "timeout must be" in rest.ask("POST", "/head?timeout=soon").text
    assert rest.take().status_code == 204


def test_a_queue_takes_messages_as_large_as_it_says(tmp_path):
    with Appliance(tmp_path / "data", "--publish-bytes-max", "4000000") as own:
        queues = {"large": {"maxMessageSizeInKilobytes": 2_048}, "usual": {}}
        for name, properties in queues.items():
            own.manage("PUT", f"/queues/{name}", {"properties": properties}, status=201)
        headers = {"Authorization": f"Bearer {own.token}"}
        send = lambda name, size: requests.post(f"{own.url}/{name}/messages", data=bytes(size), headers=headers, timeout=60)
        assert (send("large", 1_500_000).status_code, send("usual", 1_500_000).status_code) == (201, 403)
        rejected = send("large", 2_200_000)
        assert rejected.status_code == 403 and "2097152" in rejected.text
        with connect(own) as client, receiver(client, "large") as receiving:
            [message] = receiving.receive_messages()
            assert len(b"".join(message.body)) == 1_500_000
            receiving.complete_message(message)
            with client.get_queue_sender("large") as sender:
                sender.send_messages(ServiceBusMessage(bytes(1_800_000)))
                assert sender.create_message_batch().max_size_in_bytes == 1_048_576
        received = requests.delete(f"{own.url}/large/messages/head?timeout=10", headers=headers, timeout=60)
        assert (received.status_code, len(received.content)) == (200, 1_800_000)
