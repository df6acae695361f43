"""What the page of a topic offers to paste, pasted: it publishes as it stands there."""

import html
import json
import os
import pathlib
import re
import subprocess
import sys

import pytest
import requests

from appliance import PATIENCE_S, Appliance

HERE = pathlib.Path(__file__).parent

MAPPING = {
    "inputSchemaMappingType": "Json",
    "properties": {
        "id": {"sourceField": "orderNo"},
        "eventType": {"sourceField": "kind", "defaultValue": "Order"},
        "subject": {"defaultValue": "/orders"},
        "dataVersion": {"defaultValue": "1.0"},
    },
}

SCHEMAS = {
    "grid": {},
    "cloud": {"inputSchema": "CloudEventSchemaV1_0"},
    "custom": {"inputSchema": "CustomEventSchema", "inputSchemaMapping": MAPPING},
}

NAME, PASSWORD = "ann", "a horse that staples batteries"


class Administrator:
    """Somebody who is signed in to the pages, without a browser."""

    def __init__(self, url, authority=None):
        self.url = url
        self.session = requests.Session()
        if authority:
            self.session.verify = str(authority)
            self.session.trust_env = False  # or the environment's authorities come first
        self.post("/admin/login", name=NAME, password=PASSWORD)

    def get(self, path):
        return self._text(self.session.get(self.url + path, timeout=PATIENCE_S))

    def post(self, path, at=None, **fields):
        """Sends a form of the page `at`, with the token that stands in it."""
        page = self.get(at or path)
        token = re.search(r'name="csrf" value="([^"]*)"', page)[1]
        answer = self.session.post(self.url + path, {"csrf": token, **fields}, timeout=PATIENCE_S)
        return self._text(answer)

    @staticmethod
    def _text(answer):
        assert answer.ok, f"{answer.url}: {answer.status_code} {answer.text}"
        return answer.text


@pytest.fixture(scope="module")
def claimed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("snippets")
    (folder / "password").write_text(PASSWORD)
    account = ["--admin-user", NAME, "--admin-password-file", folder / "password"]
    with Appliance(folder / "data", *account) as appliance:
        yield appliance


@pytest.fixture(scope="module")
def administrator(claimed):
    return Administrator(claimed.url)


def snippet(page, language):
    pattern = rf'<code data-copy="{re.escape(language)} example">(.*?)</code>'
    return html.unescape(re.search(pattern, page, re.DOTALL)[1])


def run(language, code, key):
    """Pastes the text where its language is read; returns what it printed."""
    commands = {"curl": ["sh", "-e"], "Python": [sys.executable, "-"]}
    environment = {**os.environ, "KEY": key}
    if language == "JavaScript":
        command = ["node", "--input-type=module"]
    else:
        command = commands[language]
    ran = subprocess.run(
        command,
        input=code,
        env=environment,
        cwd=HERE,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert ran.returncode == 0, f"{code}\n{ran.stdout}{ran.stderr}"
    assert "error" not in ran.stdout, ran.stdout
    return ran.stdout


def skip_without_package(language, package):
    if language == "JavaScript" and not (HERE / "node_modules" / package).exists():
        pytest.skip("the packages of tests/clients are not installed")


@pytest.mark.parametrize("schema", SCHEMAS)
@pytest.mark.parametrize("language", ["curl", "Python", "JavaScript"])
@pytest.mark.parametrize("with_key", [False, True], ids=["hidden key", "shown key"])
def test_a_pasted_text_publishes(claimed, administrator, fresh_name, schema, language, with_key):
    skip_without_package(language, "@azure/eventgrid")
    topic = claimed.create_topic(fresh_name(), **SCHEMAS[schema])
    path = f"/admin/topics/{topic.name}"
    page = administrator.post(f"{path}/keys", at=path) if with_key else administrator.get(path)
    assert (topic.key1 in page) == with_key

    run(language, snippet(page, language), "" if with_key else topic.key1)

    [event] = claimed.events(topic)
    assert event["eventType"] in ("Example.Created", "Order"), event


@pytest.mark.parametrize("language", ["curl", "Python", "JavaScript"])
def test_pasted_texts_publish_to_a_namespace_and_pull_from_it(
    claimed, administrator, fresh_name, language
):
    skip_without_package(language, "@azure/eventgrid-namespaces")
    namespace = fresh_name()
    claimed.manage("PUT", f"/namespaces/{namespace}", {"location": "local"})
    orders = f"/namespaces/{namespace}/topics/orders"
    claimed.manage("PUT", orders, {"properties": {}})
    queue = {"deliveryConfiguration": {"deliveryMode": "Queue", "queue": {}}}
    claimed.manage("PUT", f"{orders}/eventSubscriptions/audit", {"properties": queue})
    key = claimed.manage("POST", f"{orders}/listKeys")["key1"]
    path = f"/admin/topics/{namespace}%2Forders"

    run(language, snippet(administrator.get(path), language), key)
    audit = f"{path}/subscriptions/audit"
    page = administrator.get(audit)
    assert "Example.Created" in page

    printed = run(language, snippet(page, language), key)
    assert "Example.Created" in printed
    if language == "curl":
        [received] = json.loads(printed)["value"]
        token = received["brokerProperties"]["lockToken"]
        acknowledge = snippet(administrator.get(audit), "curl to acknowledge")
        settled = json.loads(run("curl", acknowledge.replace("TOKEN", token), key))
        assert settled["succeededLockTokens"] == [token]
    page = administrator.get(audit)
    assert 'id="queue"' in page and 'id="queued"' not in page


@pytest.mark.parametrize("with_key", [False, True], ids=["hidden key", "shown key"])
@pytest.mark.parametrize("sessions", [False, True], ids=["plain", "sessions"])
@pytest.mark.parametrize("language", ["Python", "JavaScript"])
def test_a_pasted_text_sends_to_a_queue_and_receives(
    claimed, administrator, fresh_name, language, sessions, with_key
):
    skip_without_package(language, "@azure/service-bus")
    queue = fresh_name()
    properties = {"requiresSession": sessions}
    claimed.manage("PUT", f"/queues/{queue}", {"properties": properties}, status=201)
    key = claimed.manage("POST", f"/topics/{queue}/listKeys")["key1"]
    path = f"/admin/queues/{queue}"
    page = administrator.post(f"{path}/keys", at=path) if with_key else administrator.get(path)

    assert run(language, snippet(page, language), "" if with_key else key) == "hello\n"
    assert claimed.manage("GET", f"/queues/{queue}")["properties"]["messageCount"] == 0


@pytest.mark.parametrize("language", ["Python", "JavaScript"])
def test_a_pasted_text_sends_to_a_topic_and_receives(claimed, administrator, fresh_name, language):
    skip_without_package(language, "@azure/service-bus")
    topic = f"contracts.v1/{fresh_name()}"
    segment = topic.replace("/", "%2F")
    claimed.manage("PUT", f"/serviceBusTopics/{segment}", {}, status=201)
    subscription = claimed.manage("PUT", f"/serviceBusTopics/{segment}/subscriptions/mail.sender", {}, status=201)
    path = f"/admin/service-bus-topics/{segment}"
    page = administrator.post(f"{path}/keys", at=path)

    assert run(language, snippet(page, language), "") == "hello\n"
    found = claimed.manage("GET", f"/serviceBusTopics/{segment}/subscriptions/{subscription['name']}")
    assert found["properties"]["messageCount"] == 0
