"""Settings that change while the appliance runs: by the API and the command line, kept over a restart."""

import subprocess

import pytest
import requests

from appliance import BINARY, Appliance, PATIENCE_S, environment, eventually
from events import EVENT
from receiver import Receiver


@pytest.fixture
def appliance(tmp_path):
    with Appliance(tmp_path / "data", egress=()) as appliance:
        yield appliance


def show(appliance, **variables):
    """`config show --origin`, line by line: what sets each setting."""
    words = [BINARY, "config", "show", "--origin", "--data-dir", appliance.data_dir]
    ran = subprocess.run(
        [str(word) for word in words],
        env={**environment(), **variables},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=True,
    )
    return dict(line.split(" = ", 1) for line in ran.stdout.splitlines() if " = " in line)


def setting(appliance, name):
    return appliance.manage("GET", f"/everpost/settings/{name}")


def put(appliance, name, value, status=200):
    return appliance.manage("PUT", f"/everpost/settings/{name}", {"value": value}, status=status)


def publish(topic, event_id):
    answer = requests.post(
        topic.endpoint,
        json=[{**EVENT, "id": event_id}],
        headers={"aeg-sas-key": topic.key1},
        timeout=PATIENCE_S,
    )
    assert answer.status_code == 200, answer.text


def test_a_setting_is_saved_noted_kept_and_taken_back(appliance):
    retention = setting(appliance, "retention.hours")
    assert (retention["value"], retention["origin"], retention["canBeChanged"]) == (168, "default", True)
    assert put(appliance, "retention.hours", "336")["value"] == 336
    assert appliance.manage("GET", "/everpost/storage")["retention"]["hours"] == 336
    assert show(appliance)["retention.hours"].split() == ["336", "#", "saved"]

    entry = appliance.manage("GET", "/everpost/audit?target=retention.hours")["value"][0]
    assert entry["sentence"] == "Changed value of setting retention.hours"
    assert entry["changes"] == [{"property": "value", "before": 168, "after": 336}]

    appliance.stop()
    with Appliance(appliance.data_dir, egress=()) as restarted:
        assert restarted.manage("GET", "/everpost/storage")["retention"]["hours"] == 336
        assert setting(restarted, "retention.hours")["origin"] == "saved"
        restarted.command("config", "unset", "retention.hours")
        assert restarted.manage("GET", "/everpost/storage")["retention"]["hours"] == 168
        assert "saved" not in show(restarted)["retention.hours"]


def test_commands_change_settings_at_once(appliance):
    printed = appliance.command("config", "set", "log.level", "error")
    assert printed == 'log.level = "error"  # saved\n'
    appliance.command("config", "set", "backup.keep", "3")
    appliance.command("config", "set", "log.level", "info")
    appliance.command("config", "set", "probation.failures", "3")
    # What people do is logged.
    eventually(lambda: "probation.failures" in appliance.log(), "more is logged at once")
    assert "backup.keep" not in appliance.log()
    assert appliance.command("config", "unset", "log.level") == 'log.level = "info"  # default\n'


def test_flags_and_variables_win_and_cannot_be_overruled(tmp_path):
    data = tmp_path / "data"
    with Appliance(data) as appliance:
        put(appliance, "retention.max_mb", "100")
        put(appliance, "retention.hours", "1")
    (data / "everpost.toml").write_text("retention.hours = 2\nretention.dead_letter_hours = 3\n")
    with Appliance(data, "--retention-max-mb", "200") as appliance:
        kept = appliance.manage("GET", "/everpost/storage")["retention"]
        assert kept == {"hours": 1, "deadLetterHours": 3, "bytesMax": 200 << 20}
        fixed = setting(appliance, "retention.max_mb")
        assert (fixed["origin"], fixed["setBy"], fixed["canBeChanged"]) == ("flag", "--retention-max-mb", False)
        for method, body in [("PUT", {"value": "300"}), ("DELETE", None)]:
            rejected = appliance.request(method, "/everpost/settings/retention.max_mb", body)
            assert rejected.status_code == 409, rejected.text
            assert "set by --retention-max-mb" in rejected.json()["error"]["message"]
        assert "EVERPOST_RETENTION_HOURS" in show(appliance, EVERPOST_RETENTION_HOURS="5")["retention.hours"]


def test_what_is_wrong_is_rejected_with_what_would_be_right(appliance):
    for name, value, status, words in [
        ("retention.hours", "soon", 400, "whole number from 0 to 876000"),
        ("egress.allow", "lan", 400, "write it like 10.0.0.0/8"),
        ("listen", "127.0.0.1:1", 409, "EVERPOST_LISTEN"),
        ("admin.password", "correct horse battery", 409, "restart"),
        ("retention.days", "1", 404, "no setting retention.days"),
    ]:
        rejected = appliance.request("PUT", f"/everpost/settings/{name}", {"value": value})
        assert rejected.status_code == status, rejected.text
        error = rejected.json()["error"]
        assert words in error["message"], error
        assert error.get("target") == ("value" if status == 400 else None)
    shown = appliance.manage("GET", "/everpost/settings")["value"]
    assert appliance.token not in str(shown)


def test_the_rules_of_egress_apply_from_the_next_request_on(appliance):
    topic = appliance.create_topic("orders")
    with Receiver() as receiver:
        put(appliance, "egress.allow", "127.0.0.0/8")
        appliance.subscribe(topic, "billing", receiver.url)
        publish(topic, "1")
        receiver.wait_for(1)
        appliance.manage("DELETE", "/everpost/settings/egress.allow")
        publish(topic, "2")
        eventually(
            lambda: "--egress-allow 127.0.0.1" in str(appliance.deliveries(topic, "2")), "it is blocked"
        )
        assert len(receiver.events()) == 1


def test_the_public_url_is_the_new_one_at_once(appliance):
    appliance.create_topic("orders")
    put(appliance, "public_url", "https://events.example.com")
    shown = appliance.manage("GET", "/topics/orders")
    assert shown["properties"]["endpoint"].startswith("https://events.example.com/")
    document = appliance.manage("GET", "/openapi.json")
    assert document["servers"] == [{"url": "https://events.example.com"}]
