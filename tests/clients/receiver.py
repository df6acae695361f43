"""A webhook that answers as it is told and remembers what it was sent."""

import http.server
import json
import socket
import threading
import time

from appliance import eventually


class Delivery:
    """One request that brought events."""

    def __init__(self, headers, body):
        self.at = time.monotonic()
        self.headers = headers
        self.body = body

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def events(self):
        """The events in it, whether they came as an array or alone."""
        found = self.json
        return found if isinstance(found, list) else [found]


class Receiver:
    """Proves itself by whichever handshake is asked for and answers deliveries by its script: one
    status (or a pair of status and headers) each, and 200 once the script is used up."""

    def __init__(self, port=0):
        self.deliveries = []
        self.handshakes = []
        self.handshake_answer = None
        self.handshake_delay_s = 0
        self._script = []
        self._lock = threading.Lock()
        self._server = None
        self.port = port
        self.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}/events"

    def start(self):
        self._server = _Server(("127.0.0.1", self.port), self)
        self.port = self._server.server_port
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def stop(self):
        """Hangs up on everybody; the port rejects connections from then on."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server.hang_up()
            self._server = None

    def script(self, *answers):
        with self._lock:
            self._script = list(answers)

    def wait_for(self, count):
        """The first `count` deliveries, once there are so many."""
        eventually(lambda: len(self.deliveries) >= count, f"{count} deliveries at the receiver")
        return self.deliveries[:count]

    def wait_for_events(self, count):
        """All events that arrived, once there are `count`."""
        eventually(lambda: len(self.events()) >= count, f"{count} events at the receiver")
        return self.events()

    def events(self):
        return [event for delivery in list(self.deliveries) for event in delivery.events]

    def answer(self, headers, body):
        """Takes a POST: the answer's status, headers and body."""
        if headers.get("aeg-event-type") == "SubscriptionValidation":
            return self._answer_handshake(headers, body)
        with self._lock:
            self.deliveries.append(Delivery(headers, body))
            answer = self._script.pop(0) if self._script else 200
        status, extra = answer if isinstance(answer, tuple) else (answer, {})
        return status, extra, b""

    def _answer_handshake(self, headers, body):
        event = json.loads(body)[0]
        self.handshakes.append({"headers": headers, "event": event})
        time.sleep(self.handshake_delay_s)
        if self.handshake_answer is not None:
            return self.handshake_answer
        proof = {"validationResponse": event["data"]["validationCode"]}
        return 200, {"Content-Type": "application/json"}, json.dumps(proof).encode()

    def answer_options(self, headers):
        self.handshakes.append({"headers": headers, "event": None})
        if self.handshake_answer is not None:
            return self.handshake_answer
        origin = headers.get("WebHook-Request-Origin")
        return 200, {"WebHook-Allowed-Origin": origin, "WebHook-Allowed-Rate": "*"}, b""


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address, receiver):
        self.receiver = receiver
        self.connections = set()
        super().__init__(address, _Handler)

    def get_request(self):
        connection, address = super().get_request()
        self.connections.add(connection)
        return connection, address

    def shutdown_request(self, request):
        self.connections.discard(request)
        super().shutdown_request(request)

    def hang_up(self):
        for connection in list(self.connections):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # the other side was quicker

    def handle_error(self, *_):
        pass  # a caller that hangs up, or is killed, is nothing to print


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Headers and body leave in two writes; waiting for an acknowledgement between them costs 40 ms.
    disable_nagle_algorithm = True

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self._reply(*self.server.receiver.answer(self.headers, body))

    def do_OPTIONS(self):
        self._reply(*self.server.receiver.answer_options(self.headers))

    def _reply(self, status, headers, body):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass
