"""Publishing with Microsoft's own client, and what its events look like at a webhook."""

import datetime
import json
import uuid

import pytest
import requests
from azure.core.credentials import AzureKeyCredential, AzureSasCredential
from azure.core.exceptions import ClientAuthenticationError, HttpResponseError
from azure.core.messaging import CloudEvent
from azure.eventgrid import EventGridEvent, EventGridPublisherClient, generate_sas

import sas

# Of a request with one event, which may have 1,049,600 bytes, in an array.
BODY_BYTES_MAX = 1_049_602

MAPPING = {
    "inputSchemaMappingType": "Json",
    "properties": {
        "id": {"sourceField": "orderNo"},
        "eventTime": {"sourceField": "when"},
        "eventType": {"sourceField": "kind", "defaultValue": "Order"},
        "subject": {"defaultValue": "/orders"},
        "dataVersion": {"defaultValue": "1.0"},
    },
}


def publisher(topic, credential=None):
    return EventGridPublisherClient(topic.endpoint, credential or AzureKeyCredential(topic.key1))


def grid_event(**changes):
    event = {
        "id": str(uuid.uuid4()),
        "subject": "/orders/7",
        "event_type": "Order.Paid",
        "data": {"total": 12.50, "lines": [{"item": "tea"}]},
        "data_version": "2.1",
    }
    return EventGridEvent(**{**event, **changes})


def cloud_event(**changes):
    event = {"source": "/shop", "type": "order.paid", "data": {"total": 12.5}}
    return CloudEvent(**{**event, **changes})


def test_one_event_arrives_whole(appliance, receiver, fresh_name):
    topic = appliance.create_topic(fresh_name())
    appliance.subscribe(topic, "billing", receiver.url + "?code=secret%20word")
    event = grid_event(
        event_time=datetime.datetime(2026, 11, 21, 6, 40, 53, 138324, datetime.timezone.utc)
    )

    publisher(topic).send(event)

    [delivery] = receiver.wait_for(1)
    assert delivery.json == [
        {
            "id": event.id,
            "topic": topic.id,
            "subject": "/orders/7",
            "eventType": "Order.Paid",
            "eventTime": "2026-11-21T06:40:53.138324Z",
            "data": {"total": 12.50, "lines": [{"item": "tea"}]},
            "dataVersion": "2.1",
            "metadataVersion": "1",
        }
    ]
    assert headers(delivery) == {
        "content-type": "application/json; charset=utf-8",
        "aeg-event-type": "Notification",
        "aeg-subscription-name": "BILLING",
        "aeg-delivery-count": "0",
        "aeg-data-version": "2.1",
        "aeg-metadata-version": "1",
    }
    assert delivery.headers["aeg-output-event-id"]


def headers(delivery):
    """The headers of a delivery that mean the same every time."""
    names = ["content-type", "aeg-event-type", "aeg-subscription-name", "aeg-delivery-count"]
    names += ["aeg-data-version", "aeg-metadata-version"]
    return {name: delivery.headers[name] for name in names if name in delivery.headers}


def test_a_list_arrives_event_by_event(appliance, receiver, fresh_name):
    topic = appliance.create_topic(fresh_name())
    appliance.subscribe(topic, "billing", receiver.url)
    events = [grid_event(subject=f"/orders/{number}") for number in range(3)]

    publisher(topic).send(events)

    deliveries = receiver.wait_for(3)
    assert all(len(delivery.json) == 1 for delivery in deliveries)
    assert {event["subject"] for delivery in deliveries for event in delivery.json} == {
        "/orders/0",
        "/orders/1",
        "/orders/2",
    }


def test_a_batching_subscription_gets_arrays(appliance, receiver, fresh_name):
    topic = appliance.create_topic(fresh_name())
    appliance.subscribe(topic, "bulk", receiver.url, {"maxEventsPerBatch": 40})
    events = [grid_event() for _ in range(100)]

    publisher(topic).send(events)

    arrived = receiver.wait_for_events(100)
    assert sorted(event["id"] for event in arrived) == sorted(event.id for event in events)
    assert 1 < max(len(delivery.json) for delivery in receiver.deliveries) <= 40


def test_a_cloud_event_arrives_alone(appliance, receiver, fresh_name):
    topic = appliance.create_topic(fresh_name(), inputSchema="CloudEventSchemaV1_0")
    appliance.subscribe(topic, "shipping", receiver.url)
    event = cloud_event(subject="7", extensions={"tenant": "north"})

    publisher(topic).send(event)

    [delivery] = receiver.wait_for(1)
    body = delivery.json
    assert body.pop("time")
    assert body == {
        "specversion": "1.0",
        "id": event.id,
        "source": "/shop",
        "type": "order.paid",
        "subject": "7",
        "tenant": "north",
        "data": {"total": 12.5},
    }
    assert headers(delivery) == {
        "content-type": "application/cloudevents+json; charset=utf-8",
        "aeg-event-type": "Notification",
        "aeg-subscription-name": "SHIPPING",
        "aeg-delivery-count": "0",
        "aeg-metadata-version": "1.0",
    }
    assert delivery.headers["WebHook-Request-Origin"] == "eventgrid.azure.net"
    assert delivery.headers["Origin"] == "eventgrid.azure.net"


def test_cloud_events_arrive_with_binary_data(appliance, receiver, fresh_name):
    topic = appliance.create_topic(fresh_name(), inputSchema="CloudEventSchemaV1_0")
    appliance.subscribe(topic, "shipping", receiver.url)
    events = [
        cloud_event(id="text", data="plain words"),
        cloud_event(id="bytes", data=b"\x00\xff", datacontenttype="application/octet-stream"),
    ]

    publisher(topic).send(events)

    arrived = {delivery.json["id"]: delivery.json for delivery in receiver.wait_for(2)}
    assert arrived["text"]["data"] == "plain words"
    assert arrived["bytes"]["data_base64"] == "AP8="
    assert "data" not in arrived["bytes"]


def test_a_cloud_event_in_headers_arrives_structured(appliance, receiver, fresh_name):
    topic = appliance.create_topic(fresh_name(), inputSchema="CloudEventSchemaV1_0")
    appliance.subscribe(topic, "shipping", receiver.url)

    answer = requests.post(
        topic.endpoint,
        data=json.dumps({"total": 3}),
        headers={
            "aeg-sas-key": topic.key1,
            "Content-Type": "application/json",
            "ce-specversion": "1.0",
            "ce-id": "in-headers",
            "ce-source": "/shop",
            "ce-type": "order.paid",
            "ce-subject": "caf%C3%A9",
            "ce-tenant": "north",
        },
        timeout=30,
    )

    assert answer.status_code == 200, answer.text
    [delivery] = receiver.wait_for(1)
    body = delivery.json
    expected = {"id": "in-headers", "source": "/shop", "subject": "café", "tenant": "north"}
    assert {name: body[name] for name in expected} == expected
    assert body["data"] == {"total": 3}


def test_grid_events_can_be_delivered_as_cloud_events(appliance, receiver, fresh_name):
    topic = appliance.create_topic(fresh_name())
    appliance.subscribe(
        topic, "modern", receiver.url, eventDeliverySchema="CloudEventSchemaV1_0"
    )
    event = grid_event()

    publisher(topic).send(event)

    [delivery] = receiver.wait_for(1)
    body = delivery.json
    expected = {
        "specversion": "1.0",
        "id": event.id,
        "source": topic.id,
        "type": "Order.Paid",
        "subject": "/orders/7",
        "data": {"total": 12.50, "lines": [{"item": "tea"}]},
    }
    assert {name: body.get(name) for name in expected} == expected


def test_custom_events_arrive_as_they_were_sent(appliance, receiver, fresh_name):
    topic = appliance.create_topic(
        fresh_name(), inputSchema="CustomEventSchema", inputSchemaMapping=MAPPING
    )
    appliance.subscribe(topic, "as-sent", receiver.url)
    order = {"orderNo": "A-1", "when": "2026-11-21T06:40:53Z", "kind": "Paid", "total": 5}

    publisher(topic).send(order)

    [delivery] = receiver.wait_for(1)
    assert delivery.json == [order]
    assert delivery.headers["content-type"] == "application/json; charset=utf-8"


def test_custom_events_can_be_delivered_in_grid_schema(appliance, receiver, fresh_name):
    topic = appliance.create_topic(
        fresh_name(), inputSchema="CustomEventSchema", inputSchemaMapping=MAPPING
    )
    appliance.subscribe(topic, "mapped", receiver.url, eventDeliverySchema="EventGridSchema")
    orders = [{"orderNo": "A-1", "kind": "Paid"}, {"orderNo": "A-2"}]

    publisher(topic).send(orders)

    arrived = {event["id"]: event for event in receiver.wait_for_events(2)}
    assert arrived["A-1"]["eventType"] == "Paid"
    assert arrived["A-2"]["eventType"] == "Order"
    for order in orders:
        event = arrived[order["orderNo"]]
        assert event["data"] == order
        assert (event["subject"], event["dataVersion"]) == ("/orders", "1.0")


def test_filters_choose_who_gets_what(appliance, receiver, fresh_name):
    topic = appliance.create_topic(fresh_name())
    paid_orders = {"includedEventTypes": ["Order.Paid"], "subjectBeginsWith": "/ORDERS/"}
    sevens = {"subjectEndsWith": "/7", "isSubjectCaseSensitive": True}
    appliance.subscribe(topic, "paid-orders", receiver.url, filter=paid_orders)
    appliance.subscribe(topic, "sevens", receiver.url, filter=sevens)

    publisher(topic).send(
        [
            grid_event(id="both"),
            grid_event(id="another-number", subject="/orders/8"),
            grid_event(id="another-type", event_type="Order.Seen"),
            grid_event(id="another-subject", subject="/returns/7"),
            grid_event(id="nothing", subject="/returns/8"),
        ]
    )

    arrived = sorted(
        (delivery.headers["aeg-subscription-name"], delivery.json[0]["id"])
        for delivery in receiver.wait_for(5)
    )
    assert arrived == [
        ("PAID-ORDERS", "another-number"),
        ("PAID-ORDERS", "both"),
        ("SEVENS", "another-subject"),
        ("SEVENS", "another-type"),
        ("SEVENS", "both"),
    ]
    stored = {event["id"]: event["matched"] for event in appliance.events(topic)}
    assert stored["nothing"] == 0 and stored["both"] == 2


def test_filters_look_into_the_data(appliance, receiver, fresh_name):
    topic = appliance.create_topic(fresh_name())
    dear = {"operatorType": "NumberGreaterThan", "key": "data.total", "value": 100}
    appliance.subscribe(topic, "dear", receiver.url, filter={"advancedFilters": [dear]})

    publisher(topic).send(
        [
            grid_event(id="cheap", data={"total": 100}),
            grid_event(id="dear", data={"total": 100.01}),
            grid_event(id="free", data={}),
        ]
    )

    assert [delivery.json[0]["id"] for delivery in receiver.wait_for(1)] == ["dear"]
    stored = {event["id"]: event["matched"] for event in appliance.events(topic)}
    assert stored == {"cheap": 0, "dear": 1, "free": 0}


def test_headers_of_the_operators_choice_are_sent(appliance, receiver, fresh_name):
    topic = appliance.create_topic(fresh_name())
    mappings = [
        {"name": "X-Tenant", "type": "Static", "properties": {"value": "north"}},
        {"name": "Authorization", "type": "Static",
         "properties": {"value": "Bearer s3cret", "isSecret": True}},
        {"name": "X-Total", "type": "Dynamic", "properties": {"sourceField": "data.total"}},
    ]
    appliance.subscribe(topic, "billing", receiver.url, {"deliveryAttributeMappings": mappings})

    publisher(topic).send(grid_event(data={"total": 12}))

    [delivery] = receiver.wait_for(1)
    assert delivery.headers["X-Tenant"] == "north"
    assert delivery.headers["Authorization"] == "Bearer s3cret"
    assert delivery.headers["X-Total"] == "12"


def test_both_keys_publish(appliance, fresh_name):
    topic = appliance.create_topic(fresh_name())

    for key in [topic.key1, topic.key2]:
        publisher(topic, AzureKeyCredential(key)).send(grid_event())

    assert len(appliance.events(topic)) == 2


def test_a_signature_publishes(appliance, fresh_name):
    topic = appliance.create_topic(fresh_name())
    token = generate_sas(topic.endpoint, topic.key2, sas.in_an_hour())

    publisher(topic, AzureSasCredential(token)).send(grid_event())

    assert len(appliance.events(topic)) == 1


def test_what_does_not_open_the_door_is_unauthorized(appliance, fresh_name):
    topic = appliance.create_topic(fresh_name())
    other = appliance.create_topic(fresh_name())
    expired = generate_sas(topic.endpoint, topic.key1, sas.an_hour_ago())
    for_another = generate_sas(other.endpoint, topic.key1, sas.in_an_hour())
    credentials = [
        AzureKeyCredential("d3Jvbmc="),
        AzureKeyCredential(other.key1),
        AzureSasCredential(expired),
        AzureSasCredential(for_another),
        AzureSasCredential(expired.replace("e=20", "e=30")),
    ]

    for credential in credentials:
        with pytest.raises(ClientAuthenticationError) as rejected:
            publisher(topic, credential).send(grid_event())
        assert rejected.value.status_code == 401
        assert rejected.value.error.code == "Unauthorized"
        assert topic.key1 not in rejected.value.message

    assert appliance.events(topic) == []


def test_a_token_without_form_is_a_bad_request(appliance, fresh_name):
    topic = appliance.create_topic(fresh_name())

    with pytest.raises(HttpResponseError) as rejected:
        publisher(topic, AzureSasCredential("no token")).send(grid_event())

    assert rejected.value.status_code == 400
    assert rejected.value.error.code == "BadRequest"


def test_one_bad_event_rejects_the_whole_list(appliance, fresh_name):
    topic = appliance.create_topic(fresh_name())
    good = {
        "id": "good",
        "subject": "/orders/7",
        "eventType": "Order.Paid",
        "eventTime": "2026-11-21T06:40:53Z",
        "data": {},
        "dataVersion": "1",
    }
    bad = {**good, "id": "bad"}
    del bad["eventType"]

    with pytest.raises(HttpResponseError) as rejected:
        publisher(topic).send([good, bad])

    error = rejected.value.error
    assert rejected.value.status_code == 400
    assert error.code == "BadRequest"
    assert error.details[0].code == "InputJsonInvalid"
    assert "eventType" in error.message and "1" in error.message
    assert appliance.events(topic) == []


@pytest.mark.parametrize("surplus", [0, 1])
def test_an_event_has_a_maximum_size(appliance, receiver, fresh_name, surplus):
    topic = appliance.create_topic(fresh_name())
    appliance.subscribe(topic, "billing", receiver.url)
    sent = []
    publish = lambda: publisher(topic).send(  # noqa: E731
        sized_event(BODY_BYTES_MAX + surplus),
        raw_request_hook=lambda request: sent.append(len(request.http_request.body)),
    )

    if surplus == 0:
        publish()
        [delivery] = receiver.wait_for(1)
        assert len(delivery.json[0]["data"]["padding"]) > BODY_BYTES_MAX - 1_000
    else:
        with pytest.raises(HttpResponseError) as rejected:
            publish()
        assert rejected.value.status_code == 413
        assert rejected.value.error.code == "RequestEntityTooLarge"
        assert appliance.events(topic) == []
    assert sent[0] == BODY_BYTES_MAX + surplus


def sized_event(size):
    """An event whose request body, as the client writes it, has exactly `size` bytes."""
    event = {
        "id": "sized",
        "subject": "/orders/7",
        "eventType": "Order.Paid",
        "eventTime": "2026-11-21T06:40:53Z",
        "data": {"padding": ""},
        "dataVersion": "1",
    }
    event["data"]["padding"] = "x" * (size - len(json.dumps([event])))
    return event


def test_a_repeated_request_is_stored_once(appliance, fresh_name):
    topic = appliance.create_topic(fresh_name())
    event = grid_event()
    repeated, other = str(uuid.uuid4()), str(uuid.uuid4())

    for request_id in [repeated, repeated, other]:
        publisher(topic).send(event, request_id=request_id)

    assert len(appliance.events(topic)) == 2
