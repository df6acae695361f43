"""Service Bus topics with subscriptions and rules, as the stock client for Python uses them."""

import uuid
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from urllib.parse import quote

import pytest
import requests
from azure.servicebus import ServiceBusClient, ServiceBusMessage, ServiceBusSubQueue
from azure.servicebus.exceptions import MessagingEntityNotFoundError, ServiceBusError

from appliance import Appliance
from queues import WAIT_S, bodies, connection_string, drain, receiver


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


def test_filters_choose_messages(topic):
    topic.subscription("large", sql("total > 100 AND sys.Label LIKE 'pa%'"))
    topic.subscription("paid", correlation(label="paid"))
    topic.subscription("urgent", correlation(label="paid", properties={"urgent": True}))
    topic.subscription("none", {"filterType": "FalseFilter"})
    topic.send(
        order("1", "paid", total=700),
        order("2", "paid", total=7, urgent=True),
        order("3", "open", total=700),
    )
    assert topic.drain("large", 1) == ["1"]
    assert topic.drain("paid", 2) == ["1", "2"]
    assert topic.drain("urgent", 1) == ["2"]
    assert topic.drain("none", 0) == []


def test_decimals_are_numbers_to_rules(topic):
    topic.subscription("large", sql("total > 10", "SET total = total + 1"))
    topic.subscription("equal", correlation(properties={"total": 12.5}))
    topic.subscription("small", sql("total <= 10"))
    topic.send(order("1", "paid", total=Decimal("12.5")), order("2", "paid", total=Decimal("9.99")))
    assert topic.drain("equal", 1) == ["1"]
    assert topic.drain("small", 1) == ["2"]
    with topic.receiver("large") as receiving:
        [message] = receiving.receive_messages()
        assert message.application_properties[b"total"] == Decimal("13.5")
        assert message.enqueued_sequence_number > 0
        receiving.complete_message(message)


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
        refused = appliance.manage("PUT", path, {}, status=409)
        assert queue in refused["error"]["message"]

    topic = Topic(appliance, client, events)
    topic.subscription("Mail.Sender_1", sql("total > 1"))
    topic.send(order("a", "paid", total=1), order("b", "paid", total=2))
    assert topic.drain("mail.sender_1", 1) == ["b"]
    names = [entry["target"] for entry in appliance.manage("GET", "/everpost/audit")["value"]]
    assert f"{events}/Mail.Sender_1/r0" in names and queue in names


def test_a_sender_that_stays_sees_changed_rules(topic):
    topic.subscription("some", correlation(label="a"))
    with topic.client.get_topic_sender(topic.name) as sender:
        sender.send_messages([order("1", "a"), order("2", "b")])
        topic._put("/subscriptions/some/rules/b", correlation(label="b"))
        topic.subscription("later")
        sender.send_messages([order("3", "b"), order("4", "c")])
    assert topic.drain("some", 2) == ["1", "3"]
    assert topic.drain("later", 2) == ["3", "4"]


def test_actions_change_the_copy_of_their_rule(topic):
    large = sql("total > 100", "SET total = total * 2; SET sys.Label = 'large'; REMOVE note")
    topic.subscription("all", {"filterType": "TrueFilter"}, large)
    message = order(b"\x00body", "paid", total=200, note="x")
    message.message_id = "m1"
    topic.send(message)
    with topic.receiver("all") as receiving:
        found = []
        while len(found) < 2:
            found += receiving.receive_messages(max_message_count=2)
        for message in found:
            receiving.complete_message(message)
    copies = {message.subject: message for message in found}
    assert copies["paid"].application_properties == {b"total": 200, b"note": b"x"}
    assert copies["large"].application_properties == {b"total": 400, b"RuleName": b"r1"}
    for message in found:
        assert message.message_id == "m1" and b"".join(message.body) == b"\x00body"


def test_what_cannot_be_evaluated_is_dead_lettered(topic):
    topic.subscription("kept", sql("total / 0 = 1"))
    topic.subscription(
        "ignored", sql("total / 0 = 1"), deadLetteringOnFilterEvaluationExceptions=False
    )
    topic.send(order("odd", "paid", total=1))
    assert topic.drain("ignored", 0) == []
    with topic.receiver("ignored", sub_queue=ServiceBusSubQueue.DEAD_LETTER) as dead:
        assert dead.peek_messages() == []
    with topic.receiver("kept", sub_queue=ServiceBusSubQueue.DEAD_LETTER) as dead:
        [message] = dead.receive_messages()
        assert str(message) == "odd"
        assert message.dead_letter_reason == "FilterException"
        assert "r0: a number was divided by zero" in message.dead_letter_error_description
        dead.complete_message(message)


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


def test_wrong_rules_are_rejected(topic):
    topic.subscription("all")
    path = f"{topic.path}/subscriptions/all/rules/odd"
    for properties, problem in [
        (sql("total >"), "properties.sqlFilter.sqlExpression: column 8"),
        (sql("1=1", "DROP x"), "properties.action.sqlExpression: column 1"),
        (correlation(), "properties.correlationFilter: it compares nothing"),
    ]:
        answer = topic.appliance.manage("PUT", path, {"properties": properties}, status=400)
        assert problem in answer["error"]["message"]
