"""The commands that say why: as a person at a terminal uses them."""

import json
import signal
import subprocess
import threading

import pytest
import requests

from appliance import BINARY, PATIENCE_S, environment, eventually

WANTED = {"filter": {"advancedFilters": [
    {"operatorType": "NumberGreaterThan", "key": "data.total", "value": 100}]}}


def order(event_id, total):
    return {
        "id": event_id,
        "subject": "/orders/7",
        "eventType": "Order.Paid",
        "eventTime": "2026-11-21T06:40:53Z",
        "data": {"total": total},
        "dataVersion": "1",
    }


@pytest.fixture
def topic(appliance, receiver, fresh_name):
    topic = appliance.create_topic(fresh_name())
    appliance.subscribe(topic, "billing", receiver.url, {"skipValidation": True}, **WANTED)
    return topic


def publish(topic, body):
    headers = {"aeg-sas-key": topic.key1, "Content-Type": "application/json"}
    return requests.post(topic.endpoint, data=body, headers=headers, timeout=30).status_code


def test_an_event_that_nobody_wanted_is_explained(appliance, topic):
    assert publish(topic, json.dumps([order("cheap", 99)])) == 200
    of_topic = ["--topic", topic.name]
    listed = appliance.command("events", "list", "--unmatched", *of_topic, "--json")
    number = json.loads(listed)["value"][0]["key"]
    by_number = appliance.command("explain", number)
    assert f"billing (topic {topic.name}): does not match" in by_number
    assert "no     advancedFilters[0]  data.total is greater than 100  99" in by_number
    by_id = appliance.command("explain", "--id", "cheap", *of_topic, "--subscription", "billing", "--json")
    assert json.loads(by_id)["clauses"][0]["held"] is False
    pasted = json.dumps(order("never published", 101))
    assert "matches" in appliance.command("explain", "--file", "-", *of_topic, given=pasted)


def test_a_filter_is_tried_before_it_is_kept(appliance, topic):
    assert publish(topic, json.dumps([order(str(total), total) for total in (90, 100, 110)])) == 200
    clause = json.dumps({"operatorType": "NumberLessThan", "key": "data.total", "value": 100})
    tried = appliance.command(
        "topics", "try-filter", topic.name, "--filter", clause, "--compare", "billing")
    assert "it matches 1 of the newest 3 events" in tried
    assert "the filter of billing matches 1 of them" in tried
    assert "newly matched: 1" in tried
    assert "no longer matched: 1" in tried


def test_a_rejected_request_can_be_looked_at(appliance, topic):
    assert publish(topic, '[{"id": "broken"}]') == 400
    listing = ["rejected", "list", "--topic", topic.name, "--json"]
    found = eventually(
        lambda: json.loads(appliance.command(*listing))["value"], "the rejected request is listed")
    shown = appliance.command("rejected", "show", found[0]["id"])
    assert "answer        400 BadRequest" in shown
    assert '  [{"id": "broken"}]' in shown
    assert topic.key1 not in shown


@pytest.mark.parametrize("as_json", [True, False])
def test_new_dead_letters_are_followed_until_ctrl_c(appliance, receiver, fresh_name, as_json):
    topic = appliance.create_topic(fresh_name())
    appliance.subscribe(topic, "billing", receiver.url)
    words = ["dead-letters", "watch", "--topic", topic.name, "--url", appliance.url]
    watching = subprocess.Popen(
        [str(BINARY), *words, *(["--json"] if as_json else [])],
        env={**environment(), "EVERPOST_MANAGEMENT_TOKEN": appliance.token},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    lines = []
    reader = threading.Thread(target=lambda: lines.extend(iter(watching.stdout.readline, "")), daemon=True)
    reader.start()
    try:
        # Dead letters from before are not shown.
        assert watching.stderr.readline().startswith("watching dead letters since ")
        for event_id in ("first", "second"):
            receiver.script(400)
            assert publish(topic, json.dumps([order(event_id, 7)])) == 200
            told = lambda: len([line for line in lines if event_id in line]) == 1
            eventually(told, f"{event_id} is shown")
        watching.send_signal(signal.SIGINT)
        assert watching.wait(PATIENCE_S) == 0
    finally:
        watching.kill()
    reader.join(PATIENCE_S)
    if as_json:
        assert [json.loads(line)["eventId"] for line in lines] == ["first", "second"]
    else:
        assert lines[0].startswith("DELIVERY")
        assert f"{topic.name}/billing" in lines[1]
        assert "UndeliverableDueToHttpBadRequest" in lines[1]
