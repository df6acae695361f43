"""What the tests share: one appliance at true speed, one in fast motion, a receiver for each test."""

import itertools
import uuid

import pytest
from azure.servicebus import ServiceBusClient

from appliance import Appliance
from queues import connection_string
from receiver import Receiver
from s3 import s3  # noqa: F401

# How much faster waits pass in fast motion: a retry schedule that starts 10 s, 30 s, 1 min becomes
# 1 s, 3 s, 6 s, which even a busy machine can tell apart.
FAST_MOTION = 10


def pytest_configure(config):
    config.addinivalue_line("markers", "guesses: shows wrong keys, of which an appliance takes few from one address")


@pytest.fixture(scope="session")
def shared_appliance(tmp_path_factory):
    with Appliance(tmp_path_factory.mktemp("appliance") / "data") as appliance:
        yield appliance


@pytest.fixture
def own_appliance(tmp_path):
    with Appliance(tmp_path / "data") as appliance:
        yield appliance


@pytest.fixture
def appliance(request):
    """The one that all share, or one of its own for a test that guesses keys: too many make everybody wait."""
    guesses = request.node.get_closest_marker("guesses")
    return request.getfixturevalue("own_appliance" if guesses else "shared_appliance")


@pytest.fixture(scope="session")
def fast_appliance(tmp_path_factory):
    data_dir = tmp_path_factory.mktemp("fast") / "data"
    with Appliance(data_dir, "--time-scale", FAST_MOTION) as appliance:
        yield appliance


@pytest.fixture
def receiver():
    with Receiver() as receiver:
        yield receiver


@pytest.fixture
def fresh_name():
    """Names of topics that no other test uses."""
    return lambda: f"topic-{next(_numbers)}"


_numbers = itertools.count(1)


@pytest.fixture
def client(appliance):
    with ServiceBusClient.from_connection_string(
        connection_string(appliance), retry_total=0
    ) as client:
        yield client


@pytest.fixture
def create_queue(appliance):
    def create(**properties):
        name = f"q-{uuid.uuid4()}"
        appliance.manage("PUT", f"/queues/{name}", {"properties": properties}, status=201)
        return name

    return create
