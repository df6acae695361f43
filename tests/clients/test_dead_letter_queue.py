"""The dead-letter queue of a subscription, drained as clients of Azure Service Bus do it over REST."""

import json
import subprocess
import threading
import time

import pytest
import requests
from azure.servicebus import ServiceBusClient, ServiceBusReceiveMode, ServiceBusSubQueue
from azure.servicebus.exceptions import (
    MessageLockLostError,
    MessagingEntityNotFoundError,
    ServiceBusAuthenticationError,
    ServiceBusError,
)

from appliance import BINARY, PATIENCE_S, environment, eventually
from queues import RULE, token

EVENT = {"subject": "/orders/7", "eventType": "Order.Paid", "eventTime": "2026-11-21T06:40:53Z", "dataVersion": "1"}


class Queue:
    """A client of one queue."""

    def __init__(self, appliance, topic, subscription="billing"):
        self.path = f"{appliance.url}/{topic.name}/Subscriptions/{subscription}/$DeadLetterQueue"
        self.authorization = token(self.path, appliance.token)

    def ask(self, method, url, authorization=None):
        headers = {"Authorization": authorization or self.authorization}
        return requests.request(method, url, headers=headers, timeout=PATIENCE_S)

    def peek_lock(self, wait_s=0):
        return self.ask("POST", f"{self.path}/messages/head?timeout={wait_s}")

    def receive_and_delete(self):
        return self.ask("DELETE", f"{self.path}/messages/head?timeout=0")


def broker_properties(answer):
    return json.loads(answer.headers["BrokerProperties"])


@pytest.fixture
def topic(appliance, fresh_name, receiver):
    topic = appliance.create_topic(fresh_name())
    appliance.subscribe(topic, "billing", receiver.url)
    return topic


def publish(topic, *ids):
    body = [{**EVENT, "id": each, "data": {"number": each}} for each in ids]
    headers = {"aeg-sas-key": topic.key1}
    assert requests.post(topic.endpoint, json=body, headers=headers, timeout=PATIENCE_S).ok


def reject(topic, receiver, *ids):
    """Has the receiver reject these events, in words of its own."""
    rejection = {
        "Everpost-Dead-Letter-Reason": "Unknown customer",
        "Everpost-Dead-Letter-Description": 'there is no "7"',
    }
    receiver.script(*[(422, rejection)] * len(ids))
    publish(topic, *ids)


def dead_letter(appliance, topic, receiver, *ids):
    """The same, and waits until they are dead letters."""
    before = len(appliance.dead_letters(topic))
    reject(topic, receiver, *ids)
    eventually(lambda: len(appliance.dead_letters(topic)) == before + len(ids), "dead letters")


def test_a_dead_letter_is_locked_renewed_abandoned_and_completed(appliance, topic, receiver):
    dead_letter(appliance, topic, receiver, "a")
    queue = Queue(appliance, topic)

    first = queue.peek_lock()
    assert first.status_code == 201, first.text
    assert first.headers["Content-Type"].startswith("application/json")
    assert first.json()["data"] == {"number": "a"}
    assert json.loads(first.headers["DeadLetterReason"]) == "Unknown customer"
    assert json.loads(first.headers["DeadLetterErrorDescription"]) == 'there is no "7"'
    properties = broker_properties(first)
    assert properties["MessageId"] == "a"
    assert properties["DeliveryCount"] == 1
    location = first.headers["Location"]
    assert location.endswith(f"/messages/{properties['SequenceNumber']}/{properties['LockToken']}")

    assert queue.peek_lock().status_code == 204, "it is locked"
    assert queue.ask("POST", location).status_code == 200, "renewed"
    assert queue.ask("PUT", location).status_code == 200, "abandoned"
    for method in ["POST", "PUT", "DELETE"]:
        lost = queue.ask(method, location)
        assert lost.status_code == 404 and "MessageLockLost" in lost.text, method

    second = queue.peek_lock()
    assert second.status_code == 201
    assert broker_properties(second)["LockToken"] != properties["LockToken"]
    by_id = second.headers["Location"].replace(f"/{properties['SequenceNumber']}/", "/a/")
    assert queue.ask("DELETE", by_id).status_code == 200, "completed"
    assert queue.peek_lock().status_code == 204
    assert appliance.dead_letters(topic) == []


def test_a_queue_is_drained_in_order(appliance, topic, receiver):
    dead_letter(appliance, topic, receiver, "a", "b", "c")
    queue = Queue(appliance, topic)
    drained = []
    while (answer := queue.receive_and_delete()).status_code == 200:
        assert "Location" not in answer.headers
        assert "LockToken" not in broker_properties(answer)
        drained.append(answer.json()["id"])
    assert answer.status_code == 204
    assert sorted(drained) == ["a", "b", "c"]


def test_whoever_waits_gets_the_next_one(appliance, topic, receiver):
    queue = Queue(appliance, topic)
    answers = []
    waiting = threading.Thread(target=lambda: answers.append(queue.peek_lock(wait_s=60)))
    waiting.start()
    begun = time.monotonic()
    dead_letter(appliance, topic, receiver, "late")
    waiting.join(PATIENCE_S)
    assert answers and answers[0].status_code == 201
    assert answers[0].json()["id"] == "late"
    assert time.monotonic() - begun < 50


def test_any_letter_case_and_no_sending(appliance, topic, receiver):
    dead_letter(appliance, topic, receiver, "a")
    queue = Queue(appliance, topic)
    path = queue.path.replace("Subscriptions", "subscriptions").replace("$DeadLetterQueue", "%24deadletterqueue")
    assert queue.ask("POST", f"{path}/Messages/Head?timeout=0", token(appliance.url, appliance.token)).ok
    rejected = queue.ask("POST", f"{queue.path}/messages")
    assert rejected.status_code == 400 and rejected.text.startswith("<Error><Code>400</Code><Detail>")


@pytest.mark.guesses
def test_tokens_are_checked(appliance, topic, receiver):
    dead_letter(appliance, topic, receiver, "a")
    queue = Queue(appliance, topic)
    url, key = f"{queue.path}/messages/head?timeout=0", appliance.token
    bad = [
        token(queue.path, key + "x"),
        token(queue.path, topic.key1),
        token(queue.path, key, rule="key1"),
        token(queue.path, key, expires_in_s=-1),
        token(queue.path.replace("billing", "audit"), key),
        token(queue.path.replace("http://127.0.0.1", "http://elsewhere"), key),
        "SharedAccessSignature nonsense",
        "Bearer nonsense",
        "none",
    ]
    for authorization in bad:
        answer = queue.ask("POST", url, authorization)
        assert answer.status_code == 401, f"{authorization}: {answer.text}"
        assert key not in answer.text
    assert key not in appliance.log()
    good = [
        token(f"sb://{appliance.url.split('://')[1]}/{topic.name}", key),
        token(appliance.url.upper(), key),
        f"Bearer {key}",
    ]
    for authorization in good:
        answer = queue.ask("POST", url, authorization)
        assert answer.status_code == 201, answer.text
        assert queue.ask("PUT", answer.headers["Location"]).status_code == 200


def test_what_is_not_there_is_not_found(appliance, topic):
    bearer = f"Bearer {appliance.token}"
    queue = Queue(appliance, topic)
    for url in [
        queue.path.replace("billing", "nobody") + "/messages/head",
        queue.path.replace(topic.name, "nothing") + "/messages/head",
        f"{appliance.url}/{topic.name}/$DeadLetterQueue/messages/head",
        f"{queue.path}/messages/1/00000000-0000-0000-0000-000000000000",
        f"{queue.path}/$management",
    ]:
        answer = queue.ask("DELETE", url, bearer)
        assert answer.status_code == 404, f"{url}: {answer.status_code}"
        assert "<Code>404</Code>" in answer.text


def test_the_command_line_makes_tokens_for_one_queue(appliance, topic, receiver):
    dead_letter(appliance, topic, receiver, "a")
    appliance.subscribe(topic, "audit", receiver.url)
    command = [BINARY, "dead-letters", "token", "--topic", topic.name, "--subscription", "billing"]
    command += ["--data-dir", appliance.data_dir]
    made = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=PATIENCE_S)
    assert made.returncode == 0, made.stderr
    queue, other = Queue(appliance, topic), Queue(appliance, topic, "audit")
    authorization = made.stdout.strip()
    assert appliance.token not in authorization
    assert other.ask("POST", f"{other.path}/messages/head?timeout=0", authorization).status_code == 401
    assert queue.ask("POST", f"{queue.path}/messages/head?timeout=0", authorization).status_code == 201


def connection_string(appliance, key=None):
    return (
        f"Endpoint=sb://{appliance.url.removeprefix('http://')};SharedAccessKeyName={RULE};"
        f"SharedAccessKey={key or appliance.token};UseDevelopmentEmulator=true;"
    )


@pytest.fixture
def client(appliance):
    string = connection_string(appliance)
    with ServiceBusClient.from_connection_string(string, retry_total=0) as client:
        yield client


def receiving(client, topic, **options):
    options = {"sub_queue": ServiceBusSubQueue.DEAD_LETTER, "max_wait_time": PATIENCE_S, **options}
    return client.get_subscription_receiver(topic.name, "billing", **options)


def receive(dead, count):
    found = []
    while len(found) < count:
        messages = dead.receive_messages(max_message_count=count - len(found))
        assert messages, f"{len(found)} of {count}"
        found += messages
    return found


def test_the_stock_client_receives_and_settles(appliance, topic, receiver, client):
    dead_letter(appliance, topic, receiver, "a", "b", "c")
    with receiving(client, topic) as dead:
        peeked = dead.peek_messages(max_message_count=5)
        assert [message.message_id for message in peeked] == ["a", "b", "c"]
        later = dead.peek_messages(sequence_number=peeked[1].sequence_number, max_message_count=1)
        assert [message.message_id for message in later] == ["b"]
        # They died side by side, in any order.
        a, b, c = sorted(receive(dead, 3), key=lambda message: message.sequence_number)
        assert json.loads(str(a))["data"] == {"number": "a"}
        assert a.content_type == "application/json; charset=utf-8"
        assert a.dead_letter_reason == "Unknown customer"
        assert a.dead_letter_error_description == 'there is no "7"'
        assert a.sequence_number == peeked[0].sequence_number
        before = b.locked_until_utc
        time.sleep(0.01)
        dead.renew_message_lock(b)
        assert b.locked_until_utc > before
        dead.complete_message(a)
        dead.defer_message(b)
        dead.abandon_message(c)
        [again] = receive(dead, 1)
        assert again.message_id == "c"
        # Both faces see the same locks.
        assert Queue(appliance, topic).peek_lock().status_code == 204
        dead.abandon_message(again)
        # A dead letter stays one.
        [again] = receive(dead, 1)
        with pytest.raises(ServiceBusError):
            dead.dead_letter_message(again)
        [deferred] = dead.receive_deferred_messages(b.sequence_number)
        assert deferred.message_id == "b"
        dead.complete_message(deferred)
        with pytest.raises(ServiceBusError):
            dead.receive_deferred_messages(b.sequence_number)
    assert [each["eventId"] for each in appliance.dead_letters(topic)] == ["c"]


def test_the_stock_client_waits_and_removes(appliance, topic, receiver, client):
    mode = ServiceBusReceiveMode.RECEIVE_AND_DELETE
    with receiving(client, topic, receive_mode=mode) as dead:
        assert dead.receive_messages(max_wait_time=1) == []
        dying = threading.Timer(0.5, reject, [topic, receiver, "late"])
        dying.start()
        [message] = receive(dead, 1)
        dying.join()
        assert message.message_id == "late"
    eventually(lambda: appliance.dead_letters(topic) == [], "it is removed once it is written")


def test_locks_that_rest_has_settled_are_lost_for_the_stock_client(appliance, topic, receiver, client):
    dead_letter(appliance, topic, receiver, "a")
    with receiving(client, topic) as dead:
        [message] = receive(dead, 1)
        queue = Queue(appliance, topic)
        path = f"{queue.path}/messages/{message.sequence_number}/{message.lock_token}"
        assert queue.ask("DELETE", path).status_code == 200
        with pytest.raises(MessageLockLostError):
            dead.complete_message(message)


@pytest.mark.guesses
def test_the_stock_client_is_told_what_is_wrong(appliance, topic, client):
    with pytest.raises(MessagingEntityNotFoundError):
        with client.get_subscription_receiver("nowhere", "billing", sub_queue="deadletter") as dead:
            dead.receive_messages()
    with pytest.raises(MessagingEntityNotFoundError):
        with client.get_queue_receiver("jobs") as dead:
            dead.receive_messages()
    string = connection_string(appliance, key="wrong")
    with ServiceBusClient.from_connection_string(string, retry_total=0) as stranger:
        with pytest.raises(ServiceBusAuthenticationError):
            with receiving(stranger, topic) as dead:
                dead.receive_messages()
