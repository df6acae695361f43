"""What happens when a webhook does not take an event: the schedule, dead letters, resubmission, and
the handshake before all that."""

import datetime

import pytest
import requests

from appliance import Appliance, eventually
from conftest import FAST_MOTION
from receiver import Receiver

# The published schedule, and how far jitter may move a wait.
SCHEDULE_S = [10, 30, 60]
JITTER = 0.1

# Moments are kept in whole milliseconds, so a wait measured between two of them may seem to be short
# by a fraction of one.
ROUNDING_S = 0.002

# Upper bounds leave room for a machine that is busy with other things.
LATENESS_S = 8


def publish(topic, event_id="an-event", **changes):
    event = {
        "id": event_id,
        "subject": "/orders/7",
        "eventType": "Order.Paid",
        "eventTime": "2026-11-21T06:40:53Z",
        "data": {"total": 12},
        "dataVersion": "1",
    }
    answer = requests.post(
        topic.endpoint, json=[{**event, **changes}], headers={"aeg-sas-key": topic.key1}, timeout=30
    )
    assert answer.status_code == 200, answer.text


def only_delivery(appliance, topic, event_id="an-event"):
    [delivery] = appliance.deliveries(topic, event_id)
    return delivery


def moment(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))


def test_a_failing_webhook_is_tried_again_on_schedule(fast_appliance, receiver, fresh_name):
    topic = fast_appliance.create_topic(fresh_name())
    fast_appliance.subscribe(topic, "billing", receiver.url)
    receiver.script(500, 500, 500, 204)

    publish(topic)

    tries = receiver.wait_for(4)
    for step, earlier, later in zip(SCHEDULE_S, tries, tries[1:]):
        waited = later.at - earlier.at
        wait = step / FAST_MOTION
        assert waited >= wait * (1 - JITTER) - ROUNDING_S
        assert waited <= wait * (1 + JITTER) + LATENESS_S
    assert [attempt.headers["aeg-delivery-count"] for attempt in tries] == ["0", "1", "2", "3"]
    assert len({attempt.body for attempt in tries}) == 1
    assert len({attempt.headers["aeg-output-event-id"] for attempt in tries}) == 1

    delivery = eventually_in_state(fast_appliance, topic, "Delivered")
    assert delivery["attempts"] == 4
    assert [attempt["httpStatusCode"] for attempt in delivery["deliveryAttempts"]] == [
        500,
        500,
        500,
        204,
    ]
    assert delivery["deadLetterReason"] is None


def eventually_in_state(appliance, topic, state, event_id="an-event"):
    def reached():
        delivery = only_delivery(appliance, topic, event_id)
        return delivery if delivery["state"] == state else None

    return eventually(reached, f"the delivery is {state}")


def test_a_webhook_that_is_down_gets_its_event_when_it_is_back(
    fast_appliance, receiver, fresh_name
):
    topic = fast_appliance.create_topic(fresh_name())
    fast_appliance.subscribe(topic, "billing", receiver.url)
    receiver.stop()

    publish(topic)
    attempted = lambda: only_delivery(fast_appliance, topic)["attempts"] >= 3  # noqa: E731
    eventually(attempted, "three attempts fail")
    receiver.start()

    receiver.wait_for(1)
    delivery = eventually_in_state(fast_appliance, topic, "Delivered")
    outcomes = [attempt["outcome"] for attempt in delivery["deliveryAttempts"]]
    assert outcomes == ["SocketError"] * (len(outcomes) - 1) + ["Delivered"]
    assert all(attempt["error"] for attempt in delivery["deliveryAttempts"][:-1])
    assert len(receiver.deliveries) == 1


@pytest.mark.parametrize(
    ("answer", "wait_s"),
    [
        (500, 10),
        (302, 10),
        (205, 10),
        (429, 10),
        (503, 30),
        (408, 120),
        (404, 300),
        ((503, {"Retry-After": "90"}), 90),
        ((429, {"Retry-After": "5"}), 10),
    ],
)
def test_the_first_wait_depends_on_the_answer(appliance, receiver, fresh_name, answer, wait_s):
    topic = appliance.create_topic(fresh_name())
    appliance.subscribe(topic, "billing", receiver.url)
    receiver.script(answer)

    publish(topic)

    def attempted():
        delivery = only_delivery(appliance, topic)
        return delivery if delivery["attempts"] == 1 else None

    delivery = eventually(attempted, "the first attempt fails")
    started = moment(delivery["deliveryAttempts"][0]["startedAt"])
    waits = (moment(delivery["nextAttemptAt"]) - started).total_seconds()
    assert wait_s <= waits <= wait_s * (1 + JITTER) + LATENESS_S
    assert delivery["state"] == "Pending"


@pytest.mark.parametrize(
    ("status", "reason", "outcome"),
    [
        (400, "UndeliverableDueToHttpBadRequest", "BadRequest"),
        (401, "UndeliverableDueToHttpUnauthorized", "Unauthorized"),
        (403, "UndeliverableDueToHttpForbidden", "Forbidden"),
        (413, "UndeliverableDueToHttpRequestEntityTooLarge", "PayloadTooLarge"),
    ],
)
def test_a_rejection_is_final(appliance, receiver, fresh_name, status, reason, outcome):
    topic = appliance.create_topic(fresh_name())
    appliance.subscribe(topic, "billing", receiver.url)
    receiver.script(status)

    publish(topic)

    delivery = eventually_in_state(appliance, topic, "DeadLettered")
    assert delivery["attempts"] == 1
    assert delivery["deadLetterReason"] == reason
    assert delivery["lastDeliveryOutcome"] == outcome
    assert delivery["lastHttpStatusCode"] == status
    assert delivery["nextAttemptAt"] is None
    [listed] = appliance.dead_letters(topic)
    assert listed["deliveryId"] == delivery["deliveryId"]
    assert (listed["eventId"], listed["subscription"]) == ("an-event", "billing")


def test_attempts_run_out(fast_appliance, receiver, fresh_name):
    topic = fast_appliance.create_topic(fresh_name())
    fast_appliance.subscribe(
        topic, "billing", receiver.url, retryPolicy={"maxDeliveryAttempts": 2}
    )
    receiver.script(500, 500, 500)

    publish(topic)

    delivery = eventually_in_state(fast_appliance, topic, "DeadLettered")
    assert delivery["deadLetterReason"] == "MaxDeliveryAttemptsExceeded"
    assert delivery["attempts"] == len(receiver.deliveries) == 2


def test_without_a_dead_letter_queue_the_event_is_dropped(appliance, receiver, fresh_name):
    topic = appliance.create_topic(fresh_name())
    appliance.subscribe(topic, "billing", receiver.url, deadLetterDestination={"endpointType": "Drop"})
    receiver.script(400)

    publish(topic)

    eventually_in_state(appliance, topic, "Dropped")
    assert appliance.dead_letters(topic) == []


def test_a_dead_letter_is_resubmitted_and_delivered(appliance, receiver, fresh_name):
    topic = appliance.create_topic(fresh_name())
    appliance.subscribe(topic, "billing", receiver.url)
    receiver.script(400)
    publish(topic)
    dead = eventually_in_state(appliance, topic, "DeadLettered")
    path = f"/everpost/deadLetters/{dead['deliveryId']}"
    assert appliance.manage("GET", path)["event"]["id"] == "an-event"

    again = appliance.manage("POST", f"{path}/resubmit", status=200)["deliveryId"]

    rejected, delivered = receiver.wait_for(2)
    assert delivered.body == rejected.body
    assert delivered.headers["aeg-delivery-count"] == "0"

    def settled():
        by_id = {d["deliveryId"]: d for d in appliance.deliveries(topic, "an-event")}
        return by_id if by_id[again]["state"] == "Delivered" else None

    by_id = eventually(settled, "the new delivery is through")
    assert by_id[again]["resubmissionOf"] == dead["deliveryId"]
    assert by_id[dead["deliveryId"]]["state"] == "Resubmitted"
    assert by_id[dead["deliveryId"]]["resubmittedAs"] == again
    assert appliance.dead_letters(topic) == []
    appliance.manage("POST", f"{path}/resubmit", status=409)
    appliance.manage("POST", "/everpost/deadLetters/999999999/resubmit", status=404)


def test_an_attempt_remembers_what_the_webhook_said(appliance, receiver, fresh_name):
    topic = appliance.create_topic(fresh_name())
    appliance.subscribe(topic, "billing", receiver.url)
    receiver.script((400, {"X-Reason": "closed on Sundays"}))

    publish(topic)

    [attempt] = eventually_in_state(appliance, topic, "DeadLettered")["deliveryAttempts"]
    assert attempt["attempt"] == 1
    assert attempt["remoteAddress"] == f"127.0.0.1:{receiver.port}"
    assert attempt["durationMs"] >= 0
    named = {name.lower(): value for name, value in attempt["responseHeaders"]}
    assert named["x-reason"] == "closed on Sundays"


def test_one_failing_webhook_does_not_hold_up_another(appliance, receiver, fresh_name):
    topic = appliance.create_topic(fresh_name())
    with Receiver() as broken:
        appliance.subscribe(topic, "broken", broken.url)
        appliance.subscribe(topic, "sound", receiver.url)
        broken.script(*[500] * 50)

        for number in range(50):
            publish(topic, f"event-{number}")

        assert {event["id"] for event in receiver.wait_for_events(50)} == {
            f"event-{number}" for number in range(50)
        }


def test_a_handshake_proves_the_webhook(appliance, receiver, fresh_name):
    topic = appliance.create_topic(fresh_name())

    appliance.subscribe(topic, "billing", receiver.url)

    [handshake] = receiver.handshakes
    event = handshake["event"]
    assert event["eventType"] == "Microsoft.EventGrid.SubscriptionValidationEvent"
    assert event["topic"] == topic.id
    assert set(event["data"]) == {"validationCode", "validationUrl"}
    assert handshake["headers"]["aeg-event-type"] == "SubscriptionValidation"


def test_a_cloud_events_webhook_consents_by_header(appliance, receiver, fresh_name):
    topic = appliance.create_topic(fresh_name(), inputSchema="CloudEventSchemaV1_0")

    appliance.subscribe(topic, "billing", receiver.url)

    [handshake] = receiver.handshakes
    assert handshake["event"] is None
    assert handshake["headers"]["WebHook-Request-Origin"] == "eventgrid.azure.net"


def test_a_person_can_prove_the_webhook_by_its_link(appliance, receiver, fresh_name):
    topic = appliance.create_topic(fresh_name())
    receiver.handshake_answer = (200, {}, b"")
    put_subscription(appliance, topic, receiver)
    appliance.await_state(topic, "billing", "AwaitingManualAction")
    publish(topic)

    link = receiver.handshakes[0]["event"]["data"]["validationUrl"]
    assert link.startswith(appliance.url)
    assert requests.get(link, timeout=30).status_code == 200

    appliance.await_state(topic, "billing", "Succeeded")


def put_subscription(appliance, topic, receiver):
    webhook = {"endpointType": "WebHook", "properties": {"endpointUrl": receiver.url}}
    appliance.manage(
        "PUT",
        f"/topics/{topic.name}/eventSubscriptions/billing",
        {"properties": {"destination": webhook}},
    )


def test_a_failed_handshake_can_be_run_again(fast_appliance, receiver, fresh_name):
    topic = fast_appliance.create_topic(fresh_name())
    receiver.handshake_answer = (500, {}, b"")
    put_subscription(fast_appliance, topic, receiver)
    fast_appliance.await_state(topic, "billing", "Failed")
    assert len(receiver.handshakes) == 3
    publish(topic)

    receiver.handshake_answer = None
    path = f"/topics/{topic.name}/eventSubscriptions/billing"
    fast_appliance.manage("POST", f"{path}/validate")
    fast_appliance.await_state(topic, "billing", "Succeeded")


def test_loopback_is_not_called_unless_allowed(tmp_path, receiver):
    with Appliance(tmp_path / "data", egress=()) as appliance:
        topic = appliance.create_topic("orders")
        destination = {"endpointUrl": receiver.url, "skipValidation": True}
        webhook = {"endpointType": "WebHook", "properties": destination}
        answer = appliance.request(
            "PUT",
            f"/topics/{topic.name}/eventSubscriptions/inside",
            {"properties": {"destination": webhook}},
        )
        if answer.ok:
            publish(topic)
            attempted = lambda: only_delivery(appliance, topic)["attempts"] > 0  # noqa: E731
            eventually(attempted, "the attempt is made")
            assert only_delivery(appliance, topic)["lastDeliveryOutcome"] == "Aborted"
        else:
            assert answer.status_code == 400
    assert receiver.deliveries == []


def test_what_was_accepted_survives_a_restart(tmp_path, receiver):
    data_dir = tmp_path / "data"
    with Appliance(data_dir, "--time-scale", FAST_MOTION) as appliance:
        topic = appliance.create_topic("orders")
        appliance.subscribe(topic, "billing", receiver.url)
        receiver.stop()
        publish(topic)
        assert (data_dir.stat().st_mode & 0o777) == 0o700
        assert ((data_dir / "management.token").stat().st_mode & 0o777) == 0o600
        assert (data_dir / "server.url").read_text() == appliance.url + "\n"
    assert not (data_dir / "server.url").exists()

    receiver.start()
    with Appliance(data_dir, "--time-scale", FAST_MOTION) as appliance:
        [delivery] = receiver.wait_for(1)
        assert delivery.json[0]["id"] == "an-event"
        eventually_in_state(appliance, topic, "Delivered")
