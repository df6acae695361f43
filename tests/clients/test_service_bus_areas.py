"""docs/azure-compatibility.md counts the tests of Service Bus' clients; its counts are those of the tests."""

import importlib
import re

import pytest

from appliance import REPOSITORY
from queues import over_all_transports

DOCUMENT = (REPOSITORY / "docs/azure-compatibility.md").read_text()
CLIENTS = REPOSITORY / "tests/clients"

AREAS = {
    "Sender": "sender",
    "Batch": "batch",
    "Receiver": "receiver",
    "Session receiver": "session_receiver",
    "Processor": "processor",
    "Session processor": "session_processor",
    "Transactions": "transactions",
    "Topics and subscriptions": "subscriptions",
    "Rules": "rules",
    "Message": "message",
    "Client": "client",
    "Deleting and purging": "deleting",
    "No request without an answer": "answers",
    "Cut connections": "backlog",
}

# Over HTTPS alone, which the clients speak for it.
ADMINISTRATION = "Administration"


def in_python(module):
    """How many tests a module has of its own, and whether they run over every transport."""
    found = importlib.import_module(f"test_service_bus_{module}")
    tests = [each for name, each in vars(found).items() if name.startswith("test_")]
    own = [each for each in tests if getattr(each, "__module__", None) == found.__name__]
    return len(own), getattr(found, "pytestmark", None) is over_all_transports


def in_javascript(area):
    """How many tests an area of the client's file has; those of a loop count once."""
    text = (CLIENTS / "service_bus.test.mjs").read_text()
    parts = re.split(r'^  describe\("([^"]+)"', text, flags=re.MULTILINE)
    areas = dict(zip(parts[1::2], parts[2::2]))
    return len(re.findall(r"^ +test\(", areas.get(area, ""), re.MULTILINE))


def rows():
    for area, module in AREAS.items():
        python, over_all = in_python(module)
        javascript = in_javascript(module.replace("_", " "))
        over = "TCP, TLS, WebSockets" if over_all else {"answers": "TCP, HTTP", "backlog": "WebSockets"}[module]
        yield f"| {area} | {python} | {javascript or '–'} | {over} |"
    javascript = (CLIENTS / "service_bus_administration.test.mjs").read_text()
    count = len(re.findall(r'^  test\("', javascript, re.MULTILINE)) - 1  # one of them is the process
    yield f"| {ADMINISTRATION} | {in_python('administration')[0]} | {count} | HTTPS |"


@pytest.mark.parametrize("row", list(rows()))
def test_the_counts_are_those_of_the_tests(row):
    assert row in DOCUMENT.splitlines()
