"""What the tests share: one appliance at true speed, one in fast motion, a receiver for each test."""

import itertools
import re
import threading
import uuid

import pytest
from xdist.scheduler import LoadFileScheduling

import queues
from appliance import Appliance
from receiver import Receiver
from s3 import s3  # noqa: F401

# How much faster waits pass in fast motion: a retry schedule that starts 10 s, 30 s, 1 min becomes
# 1 s, 3 s, 6 s, which even a busy machine can tell apart.
FAST_MOTION = 10


def pytest_configure(config):
    config.addinivalue_line("markers", "guesses: shows wrong keys, of which an appliance takes few from one address")


class ByAppliance(LoadFileScheduling):
    """What shares an appliance runs in one process: a file, or what it has over one transport or of one prefetch."""

    def _split_scope(self, nodeid):
        parted = re.search(r"(?:tcp|tls|websockets|prefetch\d+)\]$", nodeid)
        return nodeid.split("::")[0] + (parted[0] if parted else "")


def pytest_xdist_make_scheduler(config, log):
    return ByAppliance(config, log)


@pytest.fixture
def transport(request):
    return getattr(request, "param", queues.TCP)


@pytest.fixture(scope="session")
def shared_appliance(tmp_path_factory):
    with Appliance(tmp_path_factory.mktemp("appliance") / "data") as appliance:
        yield appliance


@pytest.fixture(scope="session")
def shared_secure_appliance(tmp_path_factory):
    with Appliance(tmp_path_factory.mktemp("secure") / "data", "--tls-dev") as appliance:
        yield appliance


@pytest.fixture
def own_appliance(tmp_path):
    with Appliance(tmp_path / "data") as appliance:
        yield appliance


@pytest.fixture
def own_secure_appliance(tmp_path):
    with Appliance(tmp_path / "data", "--tls-dev") as appliance:
        yield appliance


@pytest.fixture
def appliance(request, transport):
    """The one that all share, or one of its own for a test that guesses keys: too many make everybody wait."""
    whose = "own" if request.node.get_closest_marker("guesses") else "shared"
    secure = "" if transport == queues.TCP else "_secure"
    return request.getfixturevalue(f"{whose}{secure}_appliance")


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
def connect(appliance, transport):
    """Opens further clients over the same transport. No test waits for half a second until they are closed."""
    opened = []

    def connect(**options):
        opened.append(queues.connect(appliance, transport, **options))
        return opened[-1]

    yield connect
    for client in opened:
        threading.Thread(target=client.close, daemon=True).start()


@pytest.fixture
def client(connect):
    return connect()


@pytest.fixture
def create_queue(appliance):
    def create(**properties):
        name = f"q-{uuid.uuid4()}"
        appliance.manage("PUT", f"/queues/{name}", {"properties": properties}, status=201)
        return name

    return create
