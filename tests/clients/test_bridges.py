"""Events that go to a queue of Service Bus: published by the stock client of Event Grid, received by that of Service Bus. And
messages that go to webhooks."""

import json
import threading
import time

from azure.core.credentials import AzureKeyCredential
from azure.eventgrid import EventGridEvent, EventGridPublisherClient
from azure.servicebus import ServiceBusClient, ServiceBusMessage

from appliance import Appliance, eventually
from conftest import FAST_MOTION
from queues import WAIT_S, connection_string
from receiver import Receiver

KILLS = 4
BETWEEN_KILLS = 60

AZURE = "/subscriptions/s/resourceGroups/g/providers/Microsoft.ServiceBus/namespaces/n"


def bridge(appliance, topic, queue, mappings=(), **properties):
    destination = {
        "endpointType": "ServiceBusQueue",
        "properties": {"resourceId": f"{AZURE}/queues/{queue}", "deliveryAttributeMappings": list(mappings)},
    }
    path = f"/topics/{topic.name}/eventSubscriptions/to-queue"
    appliance.manage("PUT", path, {"properties": {"destination": destination, **properties}}, status=201)


def publisher(topic):
    return EventGridPublisherClient(topic.endpoint, AzureKeyCredential(topic.key1), retry_total=0)


def paid(**changes):
    return EventGridEvent(**{"subject": "/orders/7", "event_type": "Order.Paid", "data": {"total": 12}, "data_version": "2", **changes})


def test_an_event_is_received_as_a_message(appliance, client, create_queue, fresh_name):
    queue, topic = create_queue(), appliance.create_topic(fresh_name())
    tenant = {"name": "X-Tenant", "type": "Static", "properties": {"value": "north"}}
    order = {"name": "CorrelationId", "type": "Dynamic", "properties": {"sourceField": "subject"}}
    bridge(appliance, topic, queue, [tenant, order])
    event = paid()
    publisher(topic).send([event])
    with client.get_queue_receiver(queue, max_wait_time=WAIT_S) as receiving:
        [message] = receiving.receive_messages()
        receiving.complete_message(message)
        assert receiving.peek_messages() == []
    body = json.loads(str(message))
    assert (body["id"], body["data"], body["topic"]) == (str(event.id), {"total": 12}, topic.id)
    assert message.correlation_id == "/orders/7"
    properties = {name.decode(): value.decode() for name, value in message.application_properties.items()}
    assert message.message_id == properties.pop("aeg-output-event-id")
    assert properties == {
        "aeg-event-type": "Notification",
        "aeg-subscription-name": "TO-QUEUE",
        "aeg-delivery-count": "0",
        "aeg-data-version": "2",
        "aeg-metadata-version": "1",
        "X-Tenant": "north",
    }
    [delivery] = appliance.deliveries(topic, event.id)
    assert delivery["state"] == "Delivered"


def test_a_queue_that_is_gone_is_tried_again_and_the_event_a_dead_letter(fast_appliance, fresh_name):
    appliance, topic = fast_appliance, fast_appliance.create_topic(fresh_name())
    appliance.manage("PUT", "/queues/fleeting", {"properties": {}})
    retries = {"maxDeliveryAttempts": 2, "schedule": [f"PT{FAST_MOTION}S"]}
    bridge(appliance, topic, "fleeting", retryPolicy=retries)
    appliance.manage("DELETE", "/queues/fleeting")
    event = paid()
    publisher(topic).send([event])
    [letter] = eventually(lambda: appliance.dead_letters(topic), "the event is a dead letter")
    assert letter["deadLetterReason"] == "MaxDeliveryAttemptsExceeded"
    [delivery] = appliance.deliveries(topic, event.id)
    assert [each["outcome"] for each in delivery["deliveryAttempts"]] == ["NotFound", "NotFound"]
    assert "there is no queue fleeting" in delivery["deliveryAttempts"][0]["error"]


def test_the_command_line_and_files_name_queues(appliance, create_queue, fresh_name):
    queue, topic = create_queue(), appliance.create_topic(fresh_name())
    words = ("subscriptions", "create", "to-queue", "--topic", topic.name)
    appliance.command(*words, "--endpoint-type", "ServiceBusQueue", "--endpoint", queue, "--header", "X-Tenant=north")
    shown = appliance.command("subscriptions", "show", "to-queue", "--topic", topic.name)
    assert queue in shown and "X-Tenant=north" in shown
    exported = appliance.command("export")
    assert f"resourceId: {queue}" in exported
    plan = appliance.command("diff", "-", given=exported)
    assert topic.name not in plan


def webhook(appliance, receiver, entity, name, **properties):
    destination = {"endpointType": "WebHook", "properties": {"endpointUrl": receiver.url}}
    path = f"/topics/{entity}/eventSubscriptions/{name}"
    appliance.manage("PUT", path, {"properties": {"destination": destination, **properties}})
    reached = lambda: appliance.manage("GET", path)["properties"]["provisioningState"] == "Succeeded"
    eventually(reached, f"{name} is validated")


def test_a_webhook_reads_the_messages_of_a_queue(appliance, client, create_queue, receiver):
    queue = create_queue()
    webhook(appliance, receiver, queue, "all")
    large = {"key": "data.total", "operatorType": "NumberGreaterThan", "value": 100}
    with Receiver() as chosen:
        filters = {"advancedFilters": [large], "subjectBeginsWith": "pa"}
        webhook(appliance, chosen, queue, "large", filter=filters)
        with client.get_queue_sender(queue) as sender:
            sender.send_messages([
                ServiceBusMessage(
                    '{"total": 700}', subject="paid", message_id="m1", content_type="application/json",
                    correlation_id="c1", application_properties={"Order-No": 7, "color": "gr\u00fcn", "yes": True},
                ),
                ServiceBusMessage("plain words", subject="paid", message_id="m2", content_type="text/plain"),
                ServiceBusMessage(b"\x00\xff", subject="paid", message_id="m3"),
                ServiceBusMessage('{"total": 7}', subject="paid", message_id="m4"),
            ])
        events = {event["id"]: event for event in receiver.wait_for_events(4)}
        [only] = chosen.wait_for_events(1)
    first = events["m1"]
    assert first == only
    assert (first["specversion"], first["type"]) == ("1.0", "Microsoft.ServiceBus.Message")
    assert (first["subject"], first["datacontenttype"], first["data"]) == ("paid", "application/json", {"total": 700})
    assert (first["correlationid"], first["orderno"], first["color"], first["yes"]) == ("c1", 7, "gr\u00fcn", True)
    assert first["source"].endswith(queue)
    assert (events["m2"]["data"], events["m2"]["datacontenttype"]) == ("plain words", "text/plain")
    assert events["m3"]["data_base64"] == "AP8=" and "data" not in events["m3"]
    assert (events["m4"]["data"], events["m4"]["datacontenttype"]) == ({"total": 7}, "application/json")
    with client.get_queue_receiver(queue, max_wait_time=WAIT_S) as receiving:
        received = receiving.receive_messages(max_message_count=4)
        assert str(received[0]) == '{"total": 700}', "receivers get it as it was sent"
        for message in received:
            receiving.complete_message(message)


def test_a_webhook_reads_the_messages_of_a_service_bus_topic(appliance, client, receiver, fresh_name):
    topic = fresh_name()
    appliance.manage("PUT", f"/serviceBusTopics/{topic}", {"properties": {}}, status=201)
    webhook(appliance, receiver, topic, "hook")
    with client.get_topic_sender(topic) as sender:
        sender.send_messages(ServiceBusMessage("hello", subject="greeting"))
    [event] = receiver.wait_for_events(1)
    assert (event["subject"], event["data"]) == ("greeting", "hello")


def test_every_event_is_one_message_whoever_is_killed(tmp_path):
    """The message and the settlement of the delivery are one commit."""
    appliance, acknowledged, ended = Appliance(tmp_path / "data"), set(), threading.Event()
    grown = threading.Condition()

    def publish():
        number = 0
        while not ended.is_set():
            number += 1
            try:
                publisher(topic).send([paid(id=f"e{number}")])
            except Exception:  # killed meanwhile: it may be stored or not
                time.sleep(0.05)
                continue
            with grown:
                acknowledged.add(f"e{number}")
                grown.notify_all()

    with appliance:
        appliance.manage("PUT", "/queues/jobs", {"properties": {}})
        topic = appliance.create_topic("orders")
        bridge(appliance, topic, "jobs")
        thread = threading.Thread(target=publish, daemon=True)
        thread.start()
        for _ in range(KILLS):
            with grown:
                so_far = len(acknowledged)
                assert grown.wait_for(lambda so_far=so_far: len(acknowledged) >= so_far + BETWEEN_KILLS, 60)
            appliance.process.kill()
            appliance.process.wait()
            appliance.printed = []  # the next life has another address
            appliance.start()
            topic.endpoint = appliance.manage("GET", "/topics/orders")["properties"]["endpoint"]
        ended.set()
        thread.join()
        received = []
        with ServiceBusClient.from_connection_string(connection_string(appliance)) as client:
            with client.get_queue_receiver("jobs", max_wait_time=WAIT_S, receive_mode="receiveanddelete") as receiving:
                for message in receiving:
                    received.append(json.loads(str(message))["id"])
        assert len(received) == len(set(received))
        assert acknowledged <= set(received)
