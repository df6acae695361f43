"""HTTP/2 frame by frame, over a connection without TLS."""

import contextlib
import itertools
import socket
from urllib.parse import urlsplit

from hpack import Decoder, Encoder
from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
    Frame,
    HeadersFrame,
    PingFrame,
    RstStreamFrame,
    SettingsFrame,
)

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


class Connection:
    """One that does what a test tells it, and nothing that the protocol asks for."""

    def __init__(self, url, settings=None, source="127.0.0.1"):
        self.parts = urlsplit(url)
        address = (self.parts.hostname, self.parts.port)
        self.socket = socket.create_connection(address, timeout=60, source_address=(source, 0))
        self.encoder = Encoder()
        self.decoder = Decoder()
        self.streams = itertools.count(1, 2)
        self.send_bytes(PREFACE)
        self.send(SettingsFrame(0, settings=settings or {}))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send_bytes(self, data):
        """Whether the appliance still listens."""
        try:
            self.socket.sendall(data)
            return True
        except OSError:
            return False

    def send(self, *frames):
        return self.send_bytes(b"".join(frame.serialize() for frame in frames))

    def take(self):
        """Takes what has come, and looks at nothing of it."""
        with contextlib.suppress(OSError):
            while self.socket.recv(65_536, socket.MSG_DONTWAIT):
                pass

    def head(self, method="GET", path="/healthz", headers=(), ends=True):
        """The frame that begins a request, on a new stream."""
        authority = self.parts.netloc
        names = [(":method", method), (":scheme", "http"), (":authority", authority), (":path", path)]
        frame = HeadersFrame(next(self.streams), self.encoder.encode([*names, *headers]))
        frame.flags.add("END_HEADERS")
        if ends:
            frame.flags.add("END_STREAM")
        return frame

    def received(self, patience_s=60):
        """The frames that come, until the connection ends or nothing comes for so long."""
        self.socket.settimeout(patience_s)
        try:
            while head := self._exactly(9):
                frame, length = Frame.parse_frame_header(memoryview(head))
                frame.parse_body(memoryview(self._exactly(length)))
                yield frame
        except (ConnectionError, TimeoutError):
            return

    def _exactly(self, count):
        data = b""
        while len(data) < count:
            more = self.socket.recv(count - len(data))
            if not more:
                return b""
            data += more
        return data


def reset(stream_id):
    return RstStreamFrame(stream_id, error_code=8)


def data(stream_id, payload, ends=False):
    return DataFrame(stream_id, payload, flags=["END_STREAM"] if ends else [])


def continuation(stream_id, block):
    return ContinuationFrame(stream_id, block)


def stray_ping_answer():
    return PingFrame(0, b"8 bytes!", flags=["ACK"])


def settings(**values):
    return SettingsFrame(0, settings=values)
