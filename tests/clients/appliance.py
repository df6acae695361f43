"""The built binary as a test meets it: started on a free port, asked over HTTP, stopped with SIGTERM."""

import os
import pathlib
import re
import signal
import subprocess
import threading
import time

import requests

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
BINARY = pathlib.Path(os.environ.get("EVERPOST_BIN") or REPOSITORY / "target/debug/everpost")

# Nothing here takes seconds on an idle machine; a busy one may need far longer.
PATIENCE_S = 60

LISTENING = re.compile(r"listening on (https?://[0-9a-zA-Z.:\[\]]+)")


def eventually(question, what, patience_s=PATIENCE_S):
    """Asks until the answer is true (or not None), and returns it."""
    deadline = time.monotonic() + patience_s
    while True:
        answer = question()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {patience_s} s: {what}")
        time.sleep(0.02)


def environment():
    """Without what is meant for the tests: the appliance rejects to start with a setting it does not know."""
    return {name: value for name, value in os.environ.items() if not name.startswith("EVERPOST_")}


class Topic:
    """A topic that exists, with what a publisher needs to know of it."""

    def __init__(self, name, resource, keys):
        self.name = name
        self.id = resource["id"]
        self.endpoint = resource["properties"]["endpoint"]
        self.key1 = keys["key1"]
        self.key2 = keys["key2"]


class Appliance:
    """One data directory and, between start and stop, one process that serves it."""

    def __init__(self, data_dir, *arguments, egress=("127.0.0.0/8",), authority=None, socket=None):
        self.data_dir = pathlib.Path(data_dir)
        self.arguments = [*arguments, *(word for net in egress for word in ("--egress-allow", net))]
        self.socket = socket  # one that listens, to be handed over as systemd does
        self.authority = authority or self.data_dir / "tls-dev-ca.pem"  # only with --tls-dev
        self.url = None
        self.process = None
        self.printed = []

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stop()

    def start(self):
        handed = [self.socket.fileno()] if self.socket else []
        take = ["bash", "-c", 'exec env LISTEN_PID=$$ LISTEN_FDS=1 "$@" 3<&%d' % handed[0], "bash"] if handed else []
        self.process = subprocess.Popen(
            [str(word) for word in [*take, *self._command(), *self.arguments]],
            env=environment(),
            pass_fds=handed,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        # Somebody has to read, or a full pipe stops the appliance.
        threading.Thread(target=self._read, args=(self.process.stdout,), daemon=True).start()
        self.url = eventually(self._address, "the appliance prints its address")
        eventually(self._is_ready, "the appliance is ready")

    def stop(self):
        """Asks the process to stop and insists that it does so cleanly."""
        if self.process is None:
            return
        process, self.process = self.process, None
        process.send_signal(signal.SIGTERM)
        try:
            status = process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            raise AssertionError(f"SIGTERM did not stop the appliance:\n{self.log()}") from None
        assert status == 0, f"the appliance ended with {status}:\n{self.log()}"
        assert not (self.data_dir / "everpost.db-wal").exists(), f"the database was not closed:\n{self.log()}"

    def log(self):
        return "".join(self.printed)

    @property
    def token(self):
        return (self.data_dir / "management.token").read_text().strip()

    def trusted(self):
        """What `requests` is to verify it with."""
        return str(self.authority) if self.authority.exists() else True

    def command(self, *words, given=None):
        """What a command of the command line prints, which must succeed."""
        words = [BINARY, *words, "--url", self.url]
        ran = subprocess.run(
            [str(word) for word in words],
            env={**environment(), "EVERPOST_MANAGEMENT_TOKEN": self.token},
            input=given,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
        assert ran.returncode == 0, f"{words}: {ran.stdout}{ran.stderr}"
        return ran.stdout

    def request(self, method, path, body=None):
        """One management request."""
        return requests.request(
            method,
            self.url + path,
            json=body,
            headers={"Authorization": f"Bearer {self.token}"},
            timeout=PATIENCE_S,
            verify=self.trusted(),
        )

    def manage(self, method, path, body=None, status=None):
        """One management request that has to succeed (or give `status`); returns its JSON."""
        answer = self.request(method, path, body)
        expected = answer.status_code == status if status else answer.ok
        assert expected, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json() if answer.content else None

    def create_topic(self, name, **properties):
        body = {"location": "local", "properties": properties}
        resource = self.manage("PUT", f"/topics/{name}", body)
        return Topic(name, resource, self.manage("POST", f"/topics/{name}/listKeys"))

    def subscribe(self, topic, name, url, destination=None, **properties):
        """Creates an event subscription and waits until its webhook is proven."""
        path = f"/topics/{topic.name}/eventSubscriptions/{name}"
        settings = {"endpointUrl": url, **(destination or {})}
        webhook = {"endpointType": "WebHook", "properties": settings}
        self.manage("PUT", path, {"properties": {"destination": webhook, **properties}})
        self.await_state(topic, name, "Succeeded")

    def await_state(self, topic, name, state):
        path = f"/topics/{topic.name}/eventSubscriptions/{name}"

        def reached():
            properties = self.manage("GET", path)["properties"]
            return properties if properties["provisioningState"] == state else None

        return eventually(reached, f"{topic.name}/{name} is {state}")

    def events(self, topic):
        """What is stored of a topic's events, newest first."""
        return self.manage("GET", f"/everpost/events?topic={topic.name}&limit=100")["value"]

    def deliveries(self, topic, event_id):
        """The deliveries of one event, attempts included."""
        found = self.manage("GET", f"/everpost/events?topic={topic.name}&id={event_id}")["value"]
        assert len(found) == 1, f"one event {event_id!r}: {found}"
        return self.manage("GET", f"/everpost/events/{found[0]['key']}")["deliveries"]

    def dead_letters(self, topic):
        return self.manage("GET", f"/everpost/deadLetters?topic={topic.name}")["value"]

    def _command(self):
        return [BINARY, "serve", "--data-dir", self.data_dir, "--listen", "127.0.0.1:0"]

    def _read(self, lines):
        for line in lines:
            self.printed.append(line)

    def _address(self):
        self._insist_on_life()
        found = LISTENING.search(self.log())
        return found and found[1]

    def _is_ready(self):
        self._insist_on_life()
        try:
            return requests.get(self.url + "/readyz", timeout=5, verify=self.trusted()).status_code == 200
        except requests.ConnectionError:
            return False

    def _insist_on_life(self):
        status = self.process.poll()
        assert status is None, f"the appliance ended with {status}:\n{self.log()}"


class DevAppliance(Appliance):
    """`everpost dev`, whose clock moves when it is told to."""

    token = "everpost-development-token"

    def __init__(self):
        super().__init__("everpost dev keeps nothing", egress=())

    def advance(self, seconds):
        return self.manage("POST", "/everpost/test/advance", {"seconds": seconds})

    def _command(self):
        return [BINARY, "dev", "--listen", "127.0.0.1:0"]
