"""The built-in topic everpost-system, as an operator's webhook hears it."""

import types

import pytest
import requests

from appliance import PATIENCE_S, Appliance, eventually
from receiver import Receiver

SYSTEM = types.SimpleNamespace(name="everpost-system")
EVENT = {"subject": "/orders/7", "eventType": "Order.Paid", "eventTime": "2026-11-21T06:40:53Z", "dataVersion": "1"}

# Two failures are enough for a probation, and four megabytes too much for the database.
SETTINGS = """
[probation]
failures = 2
[retention]
max_mb = 2
"""


class Told:
    """What the operator's webhook has heard."""

    def __init__(self, receiver):
        self.receiver = receiver

    def await_notice(self, kind, **data):
        """The first event of this type whose data has these values."""
        kind = f"Everpost.System.{kind}"

        def fits(event):
            return event["eventType"] == kind and data.items() <= event["data"].items()

        return eventually(lambda: next(filter(fits, self.receiver.events()), None), f"{kind} {data}")


@pytest.fixture(scope="module")
def appliance(tmp_path_factory):
    folder = tmp_path_factory.mktemp("notices")
    config = folder / "everpost.toml"
    config.write_text(SETTINGS)
    with Appliance(folder / "data", "--time-scale", "20", "--config", config) as appliance:
        yield appliance


@pytest.fixture(scope="module")
def told(appliance):
    with Receiver() as receiver:
        appliance.subscribe(SYSTEM, "ops", receiver.url)
        yield Told(receiver)


@pytest.fixture
def topic(appliance, fresh_name):
    return appliance.create_topic(fresh_name())


def publish(topic, *ids, data="x"):
    body = [{**EVENT, "id": each, "data": data} for each in ids]
    headers = {"aeg-sas-key": topic.key1}
    assert requests.post(topic.endpoint, json=body, headers=headers, timeout=PATIENCE_S).ok


def test_dead_letters_and_the_replay_job_that_sends_them_again(appliance, told, topic, receiver):
    appliance.subscribe(topic, "billing", receiver.url)
    receiver.script(400)
    publish(topic, "rejected")
    event = told.await_notice("DeadLettersAdded", topic=topic.name)
    assert event["subject"] == f"/topics/{topic.name}/eventSubscriptions/billing"
    assert event["data"]["deadLetterReason"] == "UndeliverableDueToHttpBadRequest"
    assert event["data"]["count"] == 1
    dead = appliance.manage("GET", f"/everpost/deadLetters/{event['data']['lastDeliveryId']}")
    assert dead["record"]["id"] == "rejected"

    job = appliance.manage("POST", "/everpost/replays", {"source": {"filter": {"topic": topic.name}}})
    event = told.await_notice("ReplayFinished", replayJobId=job["id"])
    assert (event["data"]["state"], event["data"]["resubmitted"]) == ("Completed", 1)


def test_a_probation(appliance, told, topic, receiver):
    appliance.subscribe(topic, "billing", receiver.url)
    receiver.script(503, 503)
    publish(topic, "one", "two")
    event = told.await_notice("ProbationBegun", topic=topic.name)
    assert event["data"]["cause"] == "Busy"
    told.await_notice("ProbationEnded", topic=topic.name, eventSubscription="billing")


def test_a_receiver_that_is_gone(appliance, told, topic, receiver):
    appliance.subscribe(topic, "billing", receiver.url, disableOnGone=True)
    receiver.script(410)
    publish(topic, "one")
    told.await_notice("SubscriptionDisabled", topic=topic.name, disabledBy="Gone")


def test_a_webhook_that_does_not_agree(appliance, told, topic, receiver):
    receiver.handshake_answer = (500, {}, b"")
    webhook = {"endpointType": "WebHook", "properties": {"endpointUrl": receiver.url}}
    path = f"/topics/{topic.name}/eventSubscriptions/billing"
    appliance.manage("PUT", path, {"properties": {"destination": webhook}})
    event = told.await_notice("ValidationFailed", topic=topic.name)
    assert "500" in event["data"]["reason"]


def test_a_database_that_grows_too_large(appliance, told, topic):
    for number in range(5):
        publish(topic, f"e{number}", data="x" * 900_000)
    told.await_notice("DiskPressureBegun", cause="DatabaseSize", effect="DeliveredEventsGoEarly")
    told.await_notice("DiskPressureEnded", cause="DatabaseSize")
