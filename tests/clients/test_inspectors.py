"""Inspectors by the command line: a script, what came, and what the answers led to."""

import json

from appliance import eventually

URL = "https://inspector.everpost.internal/bin"


def test_an_inspector_answers_and_shows_what_came(fast_appliance, fresh_name):
    appliance = fast_appliance
    appliance.command("inspectors", "create", "bin", "--answer", "503 200", "--header", "x-a=b")
    topic = appliance.create_topic(fresh_name())
    appliance.subscribe(topic, "to-bin", URL)
    appliance.command("publish", "--topic", topic.name, "--type", "Order.Paid", "--id", "e-1")

    def requests():
        printed = appliance.command("inspectors", "requests", "bin", "--json")
        rows = json.loads(printed)["value"]
        return [(row["kind"], row["eventId"], row["answer"]) for row in reversed(rows)][1:]

    eventually(lambda: len(requests()) == 2, "both attempts")
    assert requests() == [("delivery", "e-1", "503"), ("delivery", "e-1", "200")]
    shown = appliance.command("inspectors", "request", "bin", "3")
    assert "aeg-delivery-count: 1" in shown and '"id":"e-1"' in shown.replace(" ", ""), shown
    [delivery] = appliance.deliveries(topic, "e-1")
    assert [attempt["httpStatusCode"] for attempt in delivery["deliveryAttempts"]] == [503, 200]
    assert "requests removed: 3" in appliance.command("inspectors", "clear", "bin")
    assert "deleted inspector bin" in appliance.command("inspectors", "delete", "bin", "--yes")
