"""The built binary, twice over: the appliance under test and its scripted receivers."""

import json
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.request

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
BINARY = pathlib.Path(os.environ.get("EVERPOST_BIN") or REPOSITORY / "target/debug/everpost")

# Nothing here takes long on an idle machine; a busy one may need far longer.
PATIENCE_S = 60


class Unexpected(Exception):
    """Something else happened than what was to be looked at."""


def eventually(question, what, patience_s=PATIENCE_S):
    """Asks until the answer is true, and returns it."""
    deadline = time.monotonic() + patience_s
    while not (answer := question()):
        if time.monotonic() > deadline:
            raise Unexpected(f"not within {patience_s} s: {what}")
        time.sleep(0.02)
    return answer


class Process:
    """One process of the binary, whose lines are kept; it is told to stop in the end."""

    def __init__(self, *arguments):
        environment = {k: v for k, v in os.environ.items() if not k.startswith("EVERPOST_")}
        self.lines = []
        self.process = subprocess.Popen(
            [str(word) for word in (BINARY, *arguments)],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        # Somebody has to read, or a full pipe stops the process.
        threading.Thread(target=self._read, daemon=True).start()
        self.url = eventually(self._address, f"{arguments[0]} listens")

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()

    def _read(self):
        for line in self.process.stdout:
            self.lines.append(line)

    def _address(self):
        if self.process.poll() is not None:
            raise Unexpected(f"the process ended with {self.process.returncode}:\n" + "".join(self.lines))
        found = re.search(r"listening on (http://[0-9a-zA-Z.:\[\]]+)", "".join(self.lines))
        return found and found[1]


class Receiver(Process):
    """A webhook that answers by script (see `everpost receive --help`)."""

    def __init__(self, answers, *arguments):
        super().__init__("receive", "--json", "--listen", "127.0.0.1:0", "--answer", answers, *arguments)

    def requests(self):
        """What came, oldest first."""
        return [json.loads(line) for line in list(self.lines) if line.startswith("{")]


class Appliance(Process):
    """An appliance in a directory of its own, whose waits pass `scale` times faster, with this mode of
    probation."""

    def __init__(self, scale, mode):
        self.directory = tempfile.TemporaryDirectory(prefix="everpost-timelines-")
        self.scale = scale
        settings = pathlib.Path(self.directory.name) / "everpost.toml"
        settings.write_text(f"probation.mode = '{mode}'\ntime_scale = {scale}\n")
        data, address = ("--data-dir", self.directory.name), ("--listen", "127.0.0.1:0")
        super().__init__("serve", *data, *address, "--egress-allow", "127.0.0.0/8")
        eventually(self._is_ready, "the appliance is ready")

    def stop(self):
        super().stop()
        self.directory.cleanup()

    def ask(self, method, path, body=None, headers=None):
        """One request that has to succeed; returns its JSON."""
        token = (pathlib.Path(self.directory.name) / "management.token").read_text().strip()
        headers = {"Content-Type": "application/json", **(headers or {"Authorization": f"Bearer {token}"})}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
                content = answer.read()
        except urllib.error.HTTPError as rejection:
            raise Unexpected(f"{method} {path}: {rejection.code} {rejection.read().decode()}") from None
        return json.loads(content) if content else None

    def create_topic(self, name, **properties):
        self.ask("PUT", f"/topics/{name}", {"location": "local", "properties": properties})

    def subscribe(self, topic, url, webhook, properties):
        settings = {"endpointUrl": f"{url}/inbox", "skipValidation": True, **webhook}
        destination = {"endpointType": "WebHook", "properties": settings}
        body = {"properties": {"destination": destination, **properties}}
        self.ask("PUT", f"/topics/{topic}/eventSubscriptions/only", body)

    def create_namespace_topic(self, namespace, topic):
        self.ask("PUT", f"/namespaces/{namespace}", {"location": "local"})
        self.ask("PUT", f"/namespaces/{namespace}/topics/{topic}", {"properties": {}})

    def subscribe_in_namespace(self, namespace, topic, url, push):
        """With the rules of namespaces for attempts and time to live."""
        settings = {"endpointUrl": f"{url}/inbox", "skipValidation": True}
        push = {**push, "destination": {"endpointType": "WebHook", "properties": settings}}
        body = {"properties": {"deliveryConfiguration": {"deliveryMode": "Push", "push": push}}}
        self.ask("PUT", f"/namespaces/{namespace}/topics/{topic}/eventSubscriptions/only", body)

    def publish_in_namespace(self, namespace, topic, event):
        key = self.ask("POST", f"/namespaces/{namespace}/listKeys")["key1"]
        headers = {"Authorization": f"SharedAccessKey {key}", "Content-Type": "application/cloudevents+json"}
        self.ask("POST", f"/namespaces/{namespace}/topics/{topic}:publish", event, headers)

    def subscription(self, topic):
        return self.ask("GET", f"/topics/{topic}/eventSubscriptions/only")["properties"]

    def resume(self, topic):
        self.ask("POST", f"/topics/{topic}/eventSubscriptions/only/resume")

    def publish(self, topic, events):
        key = self.ask("POST", f"/topics/{topic}/listKeys")["key1"]
        self.ask("POST", f"/topics/{topic}/api/events", events, {"aeg-sas-key": key})

    def keys(self, topic):
        """The keys of a topic's events, oldest first."""
        found = self.ask("GET", f"/everpost/events?topic={topic}&limit=100")["value"]
        return [event["key"] for event in reversed(found)]

    def delivery(self, key):
        """The only delivery of an event, which is pending even before it is there."""
        deliveries = self.ask("GET", f"/everpost/events/{key}")["deliveries"]
        return deliveries[0] if deliveries else {"state": "Pending", "attempts": 0}

    def _is_ready(self):
        try:
            return urllib.request.urlopen(self.url + "/readyz", timeout=5).status == 200
        except OSError:
            return False
