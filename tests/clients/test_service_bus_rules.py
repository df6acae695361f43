"""Rules of subscriptions, as they act on what the stock Service Bus client for Python sends."""

from decimal import Decimal

import pytest
from azure.servicebus import ServiceBusMessage, ServiceBusSubQueue

from queues import SIZES, manage, over_all_transports, take
from test_service_bus_topics import correlation, order, sql, topic  # noqa: F401

pytestmark = over_all_transports


@pytest.mark.parametrize("size", SIZES)
def test_rules_are_about_properties_and_leave_bodies_alone(topic, size):
    body = "x" * size
    topic.subscription("changed", sql("n = 1", "SET n = 2; SET sys.Label = 'changed'"))
    topic.send(order(body, "paid", n=1), order("not this", "paid", n=3))
    with topic.receiver("changed") as receiving:
        [message] = receiving.receive_messages()
        assert (str(message), message.subject) == (body, "changed")
        assert message.application_properties == {b"n": 2, b"RuleName": b"r0"}
        receiving.complete_message(message)


def test_filters_read_what_the_message_says_of_itself(topic):
    fields = {
        "sys.MessageId = 'm'": "message_id",
        "sys.CorrelationId = 'c'": "correlation_id",
        "sys.To = 't'": "to",
        "sys.ReplyTo = 'r'": "reply_to",
        "sys.ContentType = 'text/x'": "content_type",
        "sys.SessionId = 's'": "session_id",
    }
    values = dict(message_id="m", correlation_id="c", to="t", reply_to="r", content_type="text/x", session_id="s")
    for expression, field in fields.items():
        topic.subscription(field.replace("_", "-"), sql(expression))
    topic.send(ServiceBusMessage("all", **values), ServiceBusMessage("none", message_id="other"))
    for field in fields.values():
        assert topic.drain(field.replace("_", "-"), 1) == ["all"], field


def test_rules_are_managed_over_the_link_of_their_subscription(topic):
    topic.subscription("some")
    added = {
        "rule-name": "large",
        "rule-description": {"sql-filter": {"expression": "total > 100"}, "sql-rule-action": {"expression": "SET size = 'L'"}},
    }
    with topic.receiver("some") as receiving:
        assert manage(receiving, "add-rule", added) is not None
        assert manage(receiving, "remove-rule", {"rule-name": "$Default"}) is not None
        assert manage(receiving, "add-rule", added) is None, "it is there"
        assert manage(receiving, "remove-rule", {"rule-name": "missing"}) is None
        listed = manage(receiving, "enumerate-rules", {"top": 100, "skip": 0})
        assert len(listed[b"rules"]) == 1
        topic.send(order("1", "paid", total=7), order("2", "paid", total=700))
        [message] = take(receiving, 1)
        assert (str(message), message.application_properties[b"size"]) == ("2", b"L")


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
