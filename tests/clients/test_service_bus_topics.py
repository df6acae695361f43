"""Service Bus topics with subscriptions and rules, as the stock client for Python uses them."""

import uuid
from urllib.parse import quote

import pytest
import requests
from azure.servicebus import ServiceBusClient, ServiceBusMessage, ServiceBusSubQueue
from azure.servicebus.exceptions import MessagingEntityNotFoundError

from appliance import Appliance
from queues import WAIT_S, connection_string, drain, receiver


class Topic:
    """A topic, by its name and its place in the management API."""

    def __init__(self, appliance, client, name="orders", **properties):
        self.appliance, self.client, self.name = appliance, client, name
        self.path = f"/serviceBusTopics/{quote(name, safe='')}"
        self._put("", properties)

    def _put(self, path, properties):
        self.appliance.manage("PUT", self.path + path, {"properties": properties}, status=201)

    def subscription(self, name, *rules, **properties):
        """Creates a subscription, with these rules in place of its first one if there are any."""
        path = f"/subscriptions/{name}"
        self._put(path, properties)
        for number, rule in enumerate(rules):
            self._put(f"{path}/rules/r{number}", rule)
        if rules:
            self.appliance.manage("DELETE", f"{self.path}{path}/rules/$Default")

    def send(self, *messages):
        with self.client.get_topic_sender(self.name) as sender:
            sender.send_messages(list(messages))

    def receiver(self, subscription, **options):
        options = {"max_wait_time": WAIT_S, **options}
        return self.client.get_subscription_receiver(self.name, subscription, **options)

    def drain(self, subscription, count):
        with self.receiver(subscription) as receiving:
            found = drain(receiving, count)
            assert receiving.peek_messages() == []
        return found


@pytest.fixture
def topic(appliance, client):
    return Topic(appliance, client, f"t-{uuid.uuid4()}")


def sql(expression, action=None):
    rule = {"filterType": "SqlFilter", "sqlFilter": {"sqlExpression": expression}}
    return {**rule, "action": {"sqlExpression": action}} if action else rule


def correlation(**fields):
    return {"filterType": "CorrelationFilter", "correlationFilter": fields}


def order(body, subject, **properties):
    return ServiceBusMessage(body, subject=subject, application_properties=properties)


def test_names_have_dots_underscores_and_slashes(appliance, client):
    queue, events = f"Team.A_{uuid.uuid4()}/jobs", f"Contracts.V1_{uuid.uuid4()}/Order_Placed"
    path = f"/queues/{quote(queue, safe='')}"
    appliance.manage("PUT", path, {}, status=201)
    assert appliance.manage("GET", path.lower().replace("%2f", "%2F"))["name"] == queue
    keys = appliance.manage("POST", f"/topics/{quote(queue, safe='')}/listKeys")
    own = ServiceBusClient.from_connection_string(connection_string(appliance, keys["key1"], "key1"), retry_total=0)
    with own, own.get_queue_sender(queue) as sender:
        sender.send_messages([ServiceBusMessage("1"), ServiceBusMessage("2")])
    with receiver(client, queue.upper()) as receiving:
        [first] = receiving.receive_messages()
        receiving.dead_letter_message(first, reason="bad")
    with receiver(client, queue, sub_queue=ServiceBusSubQueue.DEAD_LETTER) as dead:
        [first] = dead.receive_messages()
        assert (str(first), first.dead_letter_reason) == ("1", "bad")
        dead.complete_message(first)
    for path in (queue, quote(queue, safe="")):
        rest = requests.post(
            f"{appliance.url}/{path}/messages/head?timeout=0", headers={"Authorization": f"Bearer {appliance.token}"}
        )
        assert (rest.status_code, rest.text) == (201, "2"), rest.text
        requests.put(rest.headers["Location"], headers={"Authorization": f"Bearer {appliance.token}"}).raise_for_status()
    for path in (f"/queues/{queue.split('/')[0]}", f"/serviceBusTopics/{quote(queue + '/more', safe='')}"):
        rejected = appliance.manage("PUT", path, {}, status=409)
        assert queue in rejected["error"]["message"]

    topic = Topic(appliance, client, events)
    topic.subscription("Mail.Sender_1", sql("total > 1"))
    topic.send(order("a", "paid", total=1), order("b", "paid", total=2))
    assert topic.drain("mail.sender_1", 1) == ["b"]
    names = [entry["target"] for entry in appliance.manage("GET", "/everpost/audit")["value"]]
    assert f"{events}/Mail.Sender_1/r0" in names and queue in names


def test_rules_and_messages_survive_a_restart(tmp_path):
    with Appliance(tmp_path / "data") as appliance:
        with ServiceBusClient.from_connection_string(connection_string(appliance)) as client:
            topic = Topic(appliance, client)
            topic.subscription("paid", correlation(label="paid", properties={"n": 7}))
            topic.send(order("1", "paid", n=7), order("2", "paid", n=8))
    with Appliance(tmp_path / "data") as appliance:
        with ServiceBusClient.from_connection_string(connection_string(appliance)) as client:
            topic = Topic(appliance, client)
            topic.send(order("3", "paid", n=7.0), order("4", "paid", n="7"))
            assert topic.drain("paid", 2) == ["1", "3"]


def test_the_command_line_manages_topics(appliance, client):
    name = f"t-{uuid.uuid4()}"

    def run(*args):
        return appliance.command("service-bus", *args)

    run("topics", "create", name, "--time-to-live", "P14D", "--status", "send-disabled")
    assert "SendDisabled" in run("topics", "show", name)
    run("topics", "create", name, "--time-to-live", "P14D")
    of_topic = ("--topic", name)
    run("subscriptions", "create", "large", *of_topic, "--max-delivery-count", "3")
    of = (*of_topic, "--subscription", "large")
    run("rules", "create", "large", *of, "--sql", "total > 100", "--action", "SET size = 'L'")
    run("rules", "create", "paid", *of, "--label", "paid", "--equal", "kind=new")
    run("rules", "delete", "$Default", *of, "--yes")
    listed = run("rules", "list", *of).splitlines()
    assert listed[1].split() == ["large", "total", ">", "100", "SET", "size", "=", "'L'"]
    assert "total > 100" in run("rules", "show", "large", *of)
    assert 'kind = "new"' in listed[2] and 'label = "paid"' in listed[2]
    with client.get_topic_sender(name) as sender:
        sender.send_messages([order("1", "open", total=700), order("2", "paid", kind="new")])
    row = next(row for row in run("subscriptions", "list", *of_topic).splitlines() if "large" in row)
    assert row.split() == ["large", "2", "0", "3", "PT1M"]
    assert "filter errors     dead-lettered" in run("subscriptions", "show", "large", *of_topic)
    assert name in run("topics", "list")
    run("subscriptions", "delete", "large", *of_topic, "--yes")
    assert "subscriptions  0" in run("topics", "show", name)
    run("topics", "delete", name, "--yes")
    with pytest.raises(MessagingEntityNotFoundError):
        with client.get_topic_sender(name) as sender:
            sender.send_messages(ServiceBusMessage("lost"))
