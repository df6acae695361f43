"""Traces: the context of publishers goes to endpoints, and spans to a collector that asks for OTLP over HTTP."""

import http.server
import json
import re
import threading

import pytest
import requests

from appliance import Appliance, PATIENCE_S, eventually
from receiver import Receiver

TRACE = "0af7651916cd43dd8448eb211c80319c"
SPAN = "b7ad6b7169203331"
PARENT = f"00-{TRACE}-{SPAN}-01"


class Collector:
    """Takes spans as OpenTelemetry's collector does over HTTP in JSON, or answers with another status."""

    def __init__(self):
        self.spans, self.status, self.requests = [], 200, 0
        taken = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                assert (self.path, self.headers["Content-Type"]) == ("/v1/traces", "application/json")
                taken.requests += 1
                if taken.status == 200:
                    taken.take(body)
                answer = b'{"partialSuccess":{}}'
                self.send_response(taken.status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server.server_port}"

    def take(self, body):
        [resource] = body["resourceSpans"]
        names = {each["key"]: each["value"] for each in resource["resource"]["attributes"]}
        assert names["service.name"] == {"stringValue": "everpost"}
        [scope] = resource["scopeSpans"]
        for span in scope["spans"]:
            assert re.fullmatch("[0-9a-f]{32}", span["traceId"]) and re.fullmatch("[0-9a-f]{16}", span["spanId"])
            assert int(span["startTimeUnixNano"]) <= int(span["endTimeUnixNano"])
            values = [(each["key"], each["value"]) for each in span["attributes"]]
            span["attributes"] = {key: value.get("stringValue") or int(value["intValue"]) for key, value in values}
            self.spans.append(span)

    def wait_for(self, *names):
        """The spans of these names, each with its attributes, once there is one of each."""
        found = lambda: [span for name in names for span in self.spans if span["name"] == name]
        eventually(lambda: len(found()) >= len(names), f"spans {names}")
        return found()


@pytest.fixture
def collector():
    collector = Collector()
    yield collector
    collector.server.shutdown()
    collector.server.server_close()


@pytest.fixture
def receiver():
    with Receiver() as receiver:
        yield receiver


@pytest.fixture
def traced(tmp_path, collector):
    with Appliance(tmp_path / "data", "--tracing-otlp-endpoint", collector.url) as appliance:
        yield appliance


def publish(topic, *events, traceparent=None, content_type="application/json"):
    headers = {"aeg-sas-key": topic.key1, "Content-Type": content_type}
    if traceparent:
        headers["traceparent"] = traceparent
    body = json.dumps(list(events))
    return requests.post(topic.endpoint, data=body, headers=headers, timeout=PATIENCE_S)


def event(identity="1"):
    return {"id": identity, "eventType": "T", "subject": "s", "dataVersion": "1",
            "eventTime": "2026-11-21T06:40:53Z", "data": {}}


def cloud_event(traceparent):
    return {"specversion": "1.0", "id": "1", "type": "T", "source": "/s", "traceparent": traceparent}


def metric(appliance, result):
    headers = {"Authorization": f"Bearer {appliance.token}"}
    text = requests.get(appliance.url + "/metrics", headers=headers, timeout=PATIENCE_S).text
    found = re.search(rf'^everpost_trace_spans_total{{result="{result}"}} (\d+)', text, re.M)
    return int(found[1]) if found else 0


def test_a_trace_goes_through_the_appliance_with_a_span_for_each_attempt(traced, receiver, collector):
    topic = traced.create_topic("orders")
    traced.subscribe(topic, "billing", receiver.url)
    receiver.script(503)
    traced.manage("PATCH", "/topics/orders/eventSubscriptions/billing", {"retryPolicy": {"maxDeliveryAttempts": 1}})
    assert publish(topic, event(), traceparent=PARENT).ok
    [delivery] = receiver.wait_for(1)
    published, attempted = collector.wait_for("publish orders", "deliver orders")
    assert (published["traceId"], published["parentSpanId"], published["kind"]) == (TRACE, SPAN, 2)
    assert (attempted["traceId"], attempted["parentSpanId"], attempted["kind"]) == (TRACE, published["spanId"], 3)
    assert delivery.headers["traceparent"] == f"00-{TRACE}-{attempted['spanId']}-01"
    assert published["attributes"] == {
        "messaging.system": "eventgrid", "messaging.operation.name": "publish", "messaging.operation.type": "send",
        "messaging.destination.name": "orders", "messaging.batch.message_count": 1,
    }
    assert attempted["attributes"] == {
        "messaging.system": "eventgrid", "messaging.operation.name": "deliver", "messaging.operation.type": "send",
        "messaging.destination.name": "orders", "messaging.destination.subscription.name": "billing",
        "messaging.message.id": "1", "server.address": "127.0.0.1", "server.port": receiver.port,
        "http.request.method": "POST", "http.response.status_code": 503, "error.type": "Busy",
    }
    assert attempted["status"] == {"code": 2, "message": "Busy"} and "status" not in published


def test_events_without_a_context_have_traces_of_their_own(traced, receiver, collector):
    topic = traced.create_topic("orders")
    traced.subscribe(topic, "billing", receiver.url)
    assert publish(topic, event()).ok
    published, attempted = collector.wait_for("publish orders", "deliver orders")
    assert published["traceId"] == attempted["traceId"] and "parentSpanId" not in published
    [delivery] = receiver.wait_for(1)
    assert delivery.headers["traceparent"] == f"00-{attempted['traceId']}-{attempted['spanId']}-01"
    # Nothing is stored of it, and nobody records what the publisher does not.
    assert publish(topic, event("2"), traceparent=PARENT[:-1] + "0").ok
    assert receiver.wait_for(2)[1].headers["traceparent"] == PARENT[:-1] + "0"
    assert not publish(topic, {"id": 7}).ok
    rejected = eventually(
        lambda: [span for span in collector.spans if span.get("status")], "the span of a rejected request"
    )
    assert [span["name"] for span in rejected] == ["publish orders"]
    assert not any(span["traceId"] == TRACE for span in collector.spans)


def test_cloud_events_bring_their_context_along(traced, receiver, collector):
    topic = traced.create_topic("orders", inputSchema="CloudEventSchemaV1_0")
    traced.subscribe(topic, "billing", receiver.url, eventDeliverySchema="CloudEventSchemaV1_0")
    batch = "application/cloudevents-batch+json"
    assert publish(topic, cloud_event(PARENT), content_type=batch).ok
    [delivery] = receiver.wait_for(1)
    published, attempted = collector.wait_for("publish orders", "deliver orders")
    assert published["parentSpanId"] == attempted["parentSpanId"] == SPAN
    assert delivery.headers["traceparent"] == f"00-{TRACE}-{attempted['spanId']}-01"
    [arrived] = delivery.events
    assert arrived["traceparent"] == PARENT  # that of the event itself


def test_without_a_collector_contexts_go_through_as_they_came(tmp_path, receiver):
    with Appliance(tmp_path / "data") as appliance:
        topic = appliance.create_topic("orders")
        appliance.subscribe(topic, "billing", receiver.url)
        assert publish(topic, event(), traceparent=PARENT).ok
        assert publish(topic, event("2"), traceparent="00-nonsense").ok
        first, second = sorted(receiver.wait_for(2), key=lambda each: each.events[0]["id"])
        assert first.headers["traceparent"] == PARENT
        assert second.headers["traceparent"] is None
        assert (metric(appliance, "exported"), metric(appliance, "dropped")) == (0, 0)


def test_a_collector_that_is_away_costs_its_spans_and_nothing_else(traced, receiver, collector):
    collector.status = 503
    topic = traced.create_topic("orders")
    traced.subscribe(topic, "billing", receiver.url)
    assert publish(topic, event(), traceparent=PARENT).ok
    receiver.wait_for(1)
    eventually(lambda: metric(traced, "dropped") >= 2, "the spans are dropped and counted")
    assert "traces do not reach their collector error=it answered 503" in traced.log()
    collector.status = 200
    # What waits at a stop is still sent.
    assert publish(topic, event("2"), traceparent=PARENT).ok
    receiver.wait_for(2)
    traced.stop()
    assert {span["name"] for span in collector.spans} == {"publish orders", "deliver orders"}
