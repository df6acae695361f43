"""The provisioning directory: what its files define is made at the start, follows them, and is theirs alone."""

import re
import subprocess

import pytest
import requests

from appliance import BINARY, Appliance, PATIENCE_S, environment, eventually
from test_snippets import NAME, PASSWORD, Administrator

ORDERS = """\
- kind: Topic
  name: orders
  location: local
- kind: EventSubscription
  name: orders/billing
  properties:
    destination:
      endpointType: WebHook
      properties:
        endpointUrl: https://inspector.everpost.internal/bin
        authentication: {type: Bearer, token: {fromFile: secrets/token}}
    retryPolicy: {maxDeliveryAttempts: 5}
- kind: Inspector
  name: bin
"""
JOBS = "- {kind: Queue, name: jobs, properties: {maxDeliveryCount: 3}}\n"


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "provisioning"
    (folder / "secrets").mkdir(parents=True)
    (folder / "secrets/token").write_text("s3cret-token\n")
    (folder / "orders.yaml").write_text(ORDERS)
    (folder / "jobs.yaml").write_text(JOBS)
    return folder


@pytest.fixture
def appliance(tmp_path, folder):
    (tmp_path / "password").write_text(PASSWORD)
    account = ["--admin-user", NAME, "--admin-password-file", tmp_path / "password"]
    with Appliance(tmp_path / "data", "--provisioning-dir", folder, *account) as appliance:
        yield appliance


def delivery_count(appliance):
    return appliance.manage("GET", "/queues/jobs")["properties"]["maxDeliveryCount"]


def failures(appliance):
    metrics = requests.get(
        appliance.url + "/metrics", headers={"Authorization": f"Bearer {appliance.token}"}, timeout=PATIENCE_S
    )
    return int(re.search(r"^everpost_provisioning_failures_total (\d+)", metrics.text, re.M)[1])


def restart(appliance, meanwhile=lambda: None):
    appliance.stop()
    meanwhile()
    appliance.printed.clear()  # the address of the last process stands there
    appliance.start()


def entries(appliance):
    return appliance.manage("GET", "/everpost/audit?limit=200")["value"]


def test_files_are_applied_at_the_start_and_again_when_they_change(appliance, folder):
    made = [entry for entry in entries(appliance) if entry["actorKind"] == "Provisioning"]
    assert {entry["actor"] for entry in made} == {str(folder / "orders.yaml"), str(folder / "jobs.yaml")}
    assert delivery_count(appliance) == 3
    (folder / "jobs.yaml").write_text(JOBS.replace("3", "7"))
    eventually(lambda: delivery_count(appliance) == 7, "the queue follows its file")
    # Only the topic's owner takes it away: what was made by hand stays.
    appliance.create_topic("by-hand")
    (folder / "orders.yaml").unlink()
    gone = lambda: appliance.request("GET", "/topics/orders").status_code == 404
    eventually(gone, "the topic goes with its file")
    assert appliance.request("GET", "/everpost/inspectors/bin").status_code == 404
    assert appliance.manage("GET", "/topics/by-hand")["name"] == "by-hand"


def test_a_restart_changes_nothing(appliance, folder):
    before = len(entries(appliance))
    restart(appliance)
    assert len(entries(appliance)) == before
    # Files that were taken away meanwhile count, too.
    restart(appliance, (folder / "jobs.yaml").unlink)
    assert appliance.request("GET", "/queues/jobs").status_code == 404
    # Without the directory all is as if it had been made by hand.
    at = appliance.arguments.index("--provisioning-dir")
    del appliance.arguments[at : at + 2]
    restart(appliance)
    assert appliance.request("DELETE", "/topics/orders").status_code == 204


def test_nobody_else_changes_what_a_file_defines(appliance, folder):
    file = str(folder / "orders.yaml")
    billing = "/topics/orders/eventSubscriptions/billing"
    for method, path, body in [
        ("PATCH", "/topics/orders", {"tags": {"a": "1"}}),
        ("DELETE", "/topics/orders", None),
        ("POST", billing + "/pause", None),
        ("DELETE", billing, None),
        ("PUT", "/everpost/inspectors/bin", {"answers": "500"}),
    ]:
        rejected = appliance.request(method, path, body)
        assert rejected.status_code == 409, f"{method} {path}: {rejected.text}"
        assert f"is provisioned from {file}; change it there" in rejected.json()["error"]["message"]
    words = [BINARY, "topics", "delete", "orders", "--yes", "--url", appliance.url]
    variables = {**environment(), "EVERPOST_MANAGEMENT_TOKEN": appliance.token}
    ran = subprocess.run(words, env=variables, capture_output=True, text=True, timeout=PATIENCE_S)
    assert ran.returncode != 0 and file in ran.stderr, ran
    # What no file holds is everybody's.
    appliance.manage("POST", "/topics/orders/regenerateKey", {"keyName": "key1"})
    exported = appliance.command("export")
    assert "orders/billing" in exported and "s3cret" not in exported
    pruned = appliance.command("apply", "-", "--prune", "--yes", given="[]")
    assert "orders" not in pruned and appliance.manage("GET", "/topics/orders")


def test_pages_say_where_an_object_comes_from(appliance, folder):
    person = Administrator(appliance.url)
    mark = f"Provisioned from <code>{folder / 'orders.yaml'}</code>. Change it there."
    billing = "/admin/topics/orders/subscriptions/billing"
    for page in ["/admin/topics/orders", billing, billing + "/edit", "/admin/inspectors/bin"]:
        assert mark in person.get(page), page
    appliance.create_topic("by-hand")
    assert "Provisioned from" not in person.get("/admin/topics/by-hand") + person.get("/admin/topics")
    token = re.search(r'name="csrf" value="([^"]*)"', person.get(billing))[1]
    rejected = person.session.post(appliance.url + billing + "/pause", {"csrf": token}, timeout=PATIENCE_S)
    assert rejected.status_code == 409 and "change it there" in rejected.text
    (folder / "jobs.yaml").write_text("- kind: Queue\n")
    shown = lambda: 'id="provisioning"' in person.get("/admin/system")
    eventually(shown, "the System page has the problem")
    assert "jobs.yaml:1: Queue : name: it is missing" in person.get("/admin/system")
    (folder / "jobs.yaml").write_text(JOBS)
    gone = lambda: 'id="provisioning"' not in person.get("/admin/system")
    eventually(gone, "the problem is over")


def test_a_faulty_file_changes_nothing_and_is_told(appliance, folder):
    assert failures(appliance) == 0
    (folder / "jobs.yaml").write_text("# queues\n" + JOBS.replace("3", "0") + "- {kind: Queue, name: more}\n")
    eventually(lambda: failures(appliance) > 0, "the failure is counted")
    assert delivery_count(appliance) == 3
    assert appliance.request("GET", "/queues/more").status_code == 404
    place = f"{folder / 'jobs.yaml'}:2: Queue jobs: properties.maxDeliveryCount: "
    assert place in appliance.log()
    # The other files are not in force either, and a directory that is empty all at once takes nothing away.
    for file in folder.glob("*.yaml"):
        file.rename(file.with_suffix(".away"))
    eventually(lambda: "leave one with []" in appliance.log(), "the empty directory is told")
    assert delivery_count(appliance) == 3
    (folder / "none.yaml").write_text("[]\n")
    eventually(lambda: appliance.request("GET", "/queues/jobs").status_code == 404, "all goes")


def test_secrets_are_followed(appliance, folder):
    changed = lambda: sum("billing" in entry["target"] for entry in entries(appliance))
    before = changed()
    (folder / "secrets/token").write_text("s3cret-other-token\n")
    eventually(lambda: changed() > before, "the subscription has the new secret")
    assert "s3cret" not in str(entries(appliance)) + appliance.log()


def test_a_start_with_a_faulty_file_ends(tmp_path, folder):
    (folder / "jobs.yaml").write_text(JOBS.replace("Queue", "Que"))
    words = [BINARY, "serve", "--listen", "127.0.0.1:0", "--data-dir", tmp_path / "data", "--provisioning-dir", folder]
    ran = subprocess.run(
        [str(word) for word in words], env=environment(), capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert ran.returncode == 1, ran
    assert f"{folder / 'jobs.yaml'}:1: Que jobs: kind: it must be one of " in ran.stderr
    assert '"Queue"' in ran.stderr


def test_only_an_explicit_list_deletes_and_never_what_holds_messages(appliance, folder):
    file = folder / "jobs.yaml"
    for text in ["", "# - kind: Queue\n", "---\n"]:
        before = failures(appliance)
        file.write_text(text)
        eventually(lambda: failures(appliance) > before, f"{text!r} is a problem")
        assert delivery_count(appliance) == 3
    file.write_text(JOBS)
    appliance.request("POST", "/jobs/messages", "one")
    before = failures(appliance)
    file.write_text("[]\n")
    eventually(lambda: failures(appliance) > before, "what holds messages is left")
    assert delivery_count(appliance) == 3
    assert appliance.request("DELETE", "/queues/jobs").status_code == 409, "it is still its file's"
    file.write_text("prune: true\nobjects: []\n")
    gone = lambda: appliance.request("GET", "/queues/jobs").status_code == 404
    eventually(gone, "it goes where the file says so")
