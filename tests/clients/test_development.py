"""`everpost dev`: what it offers to tests, and the examples of docs/testing.md."""

import contextlib
import os
import re
import subprocess
import sys

import pytest
import requests

from appliance import BINARY, LISTENING, PATIENCE_S, environment
from test_documents import PACKAGES, blocks

PAGE = "docs/testing.md"
HEADERS = {"Authorization": "Bearer everpost-development-token"}
KEY = {"aeg-sas-key": "ZXZlcnBvc3QgZGV2ZWxvcG1lbnQga2V5LCBwdWJsaWM="}
EVENT = {"id": "a", "subject": "s", "eventType": "T", "eventTime": "2026-11-21T06:40:53Z", "data": 1, "dataVersion": "1"}


@contextlib.contextmanager
def development(*arguments):
    """The address of an `everpost dev` that runs."""
    command = [BINARY, "dev", "--listen", "127.0.0.1:0", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment()) as process:
        try:
            yield next(found[1] for line in process.stdout if (found := LISTENING.search(line)))
        finally:
            process.terminate()
    assert process.returncode == 0


@pytest.fixture(scope="module")
def url():
    with development() as url:
        yield url


def ask(url, method, path, body=None, headers=HEADERS):
    return requests.request(method, url + path, json=body, headers=headers, timeout=PATIENCE_S)


def test_a_browser_on_this_machine_is_signed_in(url):
    page = requests.get(f"{url}/admin/topics", timeout=PATIENCE_S)
    assert page.ok and page.url.endswith("/admin/topics") and "events" in page.text


def test_the_limits_of_a_tier_can_be_chosen():
    with development("--service-bus-tier", "standard") as url:
        queue = ask(url, "PUT", "/queues/jobs", {}).json()
    assert queue["properties"]["maxMessageSizeInKilobytes"] == 256


def test_a_reset_forgets_everything_but_the_beginning(url):
    assert ask(url, "PUT", "/topics/orders", {"location": "local"}).ok
    assert ask(url, "POST", "/topics/events/api/events", [EVENT], KEY).ok
    assert ask(url, "POST", "/everpost/test/reset").status_code == 204
    topics = [topic["name"] for topic in ask(url, "GET", "/topics").json()["value"]]
    assert "events" in topics and "orders" not in topics
    assert ask(url, "GET", "/everpost/events?topic=events").json()["value"] == []
    assert ask(url, "POST", "/topics/events/api/events", [EVENT], KEY).ok


def test_what_is_under_way_is_waited_for_and_time_passes_when_it_is_told_to(url):
    ask(url, "POST", "/everpost/test/reset")
    ask(url, "PUT", "/everpost/inspectors/inbox", {"answers": "200", "delayInMilliseconds": 2_000})
    ask(url, "POST", "/topics/events/api/events", [EVENT], KEY)
    busy = ask(url, "POST", "/everpost/test/wait-until-idle", {"timeoutSeconds": 0})
    assert busy.status_code == 409 and "under way" in busy.json()["error"]["message"]
    assert ask(url, "POST", "/everpost/test/wait-until-idle", {}).status_code == 204
    assert "1 event delivered" in command(url, "assert", "delivered", "--type", "T").stdout
    late = command(url, "assert", "delivered", "--type", "T", "--count", "2", "--within", "0s")
    assert late.returncode == 1 and "1 event of 2 delivered within 0 ms" in late.stderr
    advanced = ask(url, "POST", "/everpost/test/advance", {"seconds": 86_400 * 365})
    assert advanced.json()["now"] > "2027"
    rejected = ask(url, "POST", "/everpost/test/advance", {"seconds": 1e9})
    assert rejected.status_code == 400 and "seconds" in rejected.json()["error"]["message"]


def test_it_takes_the_token(url):
    assert ask(url, "POST", "/everpost/test/reset", headers={}).status_code == 401


@pytest.mark.parametrize(
    "header, status",
    [
        ({"Host": "localhost"}, 200),
        ({"Host": "everpost"}, 403),
        ({"Host": "shop.example"}, 403),
        ({"Origin": "http://localhost:3000"}, 200),
        ({"Origin": "https://shop.example"}, 403),
        ({"Origin": "null"}, 403),
    ],
)
def test_web_sites_cannot_use_it(url, header, status):
    answer = ask(url, "GET", "/topics", headers={**HEADERS, **header})
    assert answer.status_code == status, answer.text


def test_other_servers_offer_none_of_it(appliance):
    for path in ("reset", "advance", "wait-until-idle"):
        assert appliance.request("POST", f"/everpost/test/{path}", {}).status_code == 404


def test_the_examples_of_the_page_pass(tmp_path):
    if not PACKAGES.exists():
        pytest.skip("the packages of tests/clients are not installed")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/everpost").symlink_to(BINARY)
    (tmp_path / "node_modules").symlink_to(PACKAGES)
    variables = {**environment(), "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}
    examples = dict(blocks(PAGE))
    (tmp_path / "test_example.py").write_text(examples["python"])
    (tmp_path / "example.test.mjs").write_text(examples["js"])
    for words in ([sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "test_example.py"], ["node", "--test"]):
        ran = subprocess.run(words, cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=PATIENCE_S)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        assert re.search(r"1 passed|pass 1", ran.stdout), ran.stdout


def command(url, *words):
    variables = {**environment(), "EVERPOST_URL": url, "EVERPOST_MANAGEMENT_TOKEN": "everpost-development-token"}
    return subprocess.run([BINARY, *words], env=variables, capture_output=True, text=True, timeout=PATIENCE_S)
