"""The dead-letter queue of a subscription, drained as clients of Azure Service Bus do it over REST."""

import base64
import hashlib
import hmac
import json
import subprocess
import threading
import time
from urllib.parse import quote_plus

import pytest
import requests

from appliance import BINARY, PATIENCE_S, environment, eventually

RULE = "RootManageSharedAccessKey"
EVENT = {"subject": "/orders/7", "eventType": "Order.Paid", "eventTime": "2026-11-21T06:40:53Z", "dataVersion": "1"}


def token(resource, key, rule=RULE, expires_in_s=300):
    """The recipe of Microsoft's documentation."""
    encoded = quote_plus(resource)
    expiry = str(int(time.time()) + expires_in_s)
    digest = hmac.new(key.encode(), f"{encoded}\n{expiry}".encode(), hashlib.sha256).digest()
    signature = quote_plus(base64.b64encode(digest))
    return f"SharedAccessSignature sr={encoded}&sig={signature}&se={expiry}&skn={rule}"


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


def dead_letter(appliance, topic, receiver, *ids):
    """Has the receiver refuse these events, in words of its own."""
    refusal = {
        "Everpost-Dead-Letter-Reason": "Unknown customer",
        "Everpost-Dead-Letter-Description": 'there is no "7"',
    }
    before = len(appliance.dead_letters(topic))
    receiver.script(*[(422, refusal)] * len(ids))
    publish(topic, *ids)
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
    refused = queue.ask("POST", f"{queue.path}/messages")
    assert refused.status_code == 400 and refused.text.startswith("<Error><Code>400</Code><Detail>")


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
