"""The library that CloudEvents publishes: its events are taken in either mode, and it reads what is delivered."""

import datetime
import json

import pytest
import requests
from cloudevents.core.bindings import http
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent

TIME = datetime.datetime(2026, 11, 21, 6, 40, 53, 138_000, tzinfo=datetime.timezone.utc)

DATA = {
    "JSON": ("application/json", {"total": 12.5, "lines": [1, None, True], "to": "Zoë"}),
    "text": ("text/plain", "Zoë paid\n"),
    "bytes": ("image/png", b"\x89PNG\x00\xff"),
    "nothing": (None, None),
}


def cloud_event(content_type, data):
    attributes = {
        "id": "an-event",
        "source": "/orders/größe",
        "type": "Order.Paid",
        "subject": "50% of 7",
        "time": TIME,
        "dataschema": "https://schemas.test/order",
        "tenant": "north & south",
    }
    if content_type:
        attributes["datacontenttype"] = content_type
    return CloudEvent(attributes=attributes, data=data)


def publish(topic, message):
    headers = {"aeg-sas-key": topic.key1, **message.headers}
    answer = requests.post(topic.endpoint, headers=headers, data=message.body, timeout=30)
    assert answer.status_code == 200, answer.text


def received(delivery):
    headers = {name.lower(): value for name, value in delivery.headers.items()}
    return http.from_http_event(http.HTTPMessage(headers=headers, body=delivery.body))


@pytest.mark.parametrize("mode", [http.to_binary_event, http.to_structured_event])
@pytest.mark.parametrize("kind", DATA)
def test_an_event_comes_out_as_it_went_in(appliance, receiver, fresh_name, kind, mode):
    topic = appliance.create_topic(fresh_name(), inputSchema="CloudEventSchemaV1_0")
    appliance.subscribe(topic, "billing", receiver.url)
    sent = cloud_event(*DATA[kind])

    publish(topic, mode(sent))

    [delivery] = receiver.wait_for(1)
    event = received(delivery)
    assert event.get_attributes() == sent.get_attributes()
    assert event.get_data() == sent.get_data()


def test_every_event_of_a_batch_is_read(appliance, receiver, fresh_name):
    topic = appliance.create_topic(fresh_name(), inputSchema="CloudEventSchemaV1_0")
    appliance.subscribe(topic, "billing", receiver.url, destination={"maxEventsPerBatch": 10})

    publish(topic, http.to_structured_event(cloud_event(*DATA["JSON"])))

    [delivery] = receiver.wait_for(1)
    assert delivery.headers["Content-Type"] == "application/cloudevents-batch+json; charset=utf-8"
    [event] = [JSONFormat().read(CloudEvent, json.dumps(one)) for one in delivery.json]
    assert event.get_attributes() == cloud_event(*DATA["JSON"]).get_attributes()


@pytest.mark.parametrize("number", [2**31, 1.5])
def test_what_the_library_could_not_read_is_rejected(appliance, fresh_name, number):
    topic = appliance.create_topic(fresh_name(), inputSchema="CloudEventSchemaV1_0")
    event = {"specversion": "1.0", "id": "1", "source": "/s", "type": "T", "n": number}

    answer = requests.post(
        topic.endpoint,
        headers={"aeg-sas-key": topic.key1, "Content-Type": "application/cloudevents+json"},
        json=event,
        timeout=30,
    )

    assert answer.status_code == 400
    assert "integer of 32 bits" in answer.json()["error"]["message"]
