"""As much of AMQP 1.0's encoding as it takes to write frames that no client writes, and a peer that writes them."""

import struct
import time

from azure.servicebus._pyamqp._decode import decode_frame
from azure.servicebus._pyamqp._encode import encode_value

HEADER = b"AMQP\x00\x01\x00\x00"
SASL_HEADER = b"AMQP\x03\x01\x00\x00"
FLOW = b"\x00\x53\x13"  # how the performative begins
NULL = b"\x40"
SENDER, RECEIVER = b"\x42", b"\x41"
YES, NO = b"\x41", b"\x42"


def uint(number):
    return b"\x70" + struct.pack(">I", number)


def text(value):
    return _sized(b"\xb1", value.encode())


def symbol(value):
    return _sized(b"\xb3", value.encode())


def binary(value):
    return _sized(b"\xb0", value)


def _sized(constructor, content):
    return constructor + struct.pack(">I", len(content)) + content


def compound(constructor, items):
    return _sized(constructor, struct.pack(">I", len(items)) + b"".join(items))


def described(code, value):
    return b"\x00\x53" + bytes([code]) + value


def composite(code, *fields):
    return described(code, compound(b"\xd0", fields))


def frame(body, kind=0):
    return struct.pack(">IBBH", len(body) + 8, 2, kind, 0) + body


def plain(rule, key):
    """The first frame of a client that shows its key, behind the header."""
    response = f"\0{rule}\0{key}".encode()
    return SASL_HEADER + frame(composite(0x41, symbol("PLAIN"), binary(response)), kind=1)


def opened():
    return HEADER + frame(composite(0x10, text("peer"), NULL, uint(65_536)))


def begun():
    return opened() + frame(composite(0x11, NULL, uint(0), uint(1_000), uint(1_000)))


def attach(handle, role, address, name="link", target=None, session=None):
    only = compound(b"\xd1", [symbol("com.microsoft:session-filter"), text(session)]) if session else NULL
    node = compound(b"\xd0", [text(address), *[NULL] * 6, only])
    fields = [described(0x28, node), target or described(0x29, compound(b"\xd0", [text(address)])), NULL, NULL, uint(0)]
    return frame(composite(0x12, text(f"{name}-{handle}"), uint(handle), role, NULL, NULL, *fields))


def transfer(handle, delivery, payload, more=False, settled=True, state=NULL, kind=0):
    tag = binary(b"tag-%d" % delivery)
    head = [uint(handle), uint(delivery), tag, uint(kind), YES if settled else NO, YES if more else NO, NULL, state]
    return frame(composite(0x14, *head) + payload)


def transfers(handle, delivery, payload, **fields):
    """A message in as many frames as it takes; whoever receives it has to answer."""
    parts = [payload[place : place + 60_000] for place in range(0, len(payload), 60_000)] or [b""]
    last = len(parts) - 1
    return b"".join(
        transfer(handle, delivery, part, more=place < last, settled=False, **fields) for place, part in enumerate(parts)
    )


def credit(handle, count):
    """Lets the peer send so many messages over a link."""
    session = [uint(0), uint(100_000), uint(0), uint(100_000)]
    return frame(composite(0x13, *session, uint(handle), uint(0), uint(count)))


def settle(delivery, state):
    """What a receiver says of a message that it leaves to be settled by the sender."""
    return frame(composite(0x15, YES, uint(delivery), uint(delivery), NO, state))


def encoded(value):
    """A value as the stock client encodes it."""
    output = bytearray()
    encode_value(output, value)
    return bytes(output)


def in_transaction(transaction, outcome=NULL):
    return composite(0x34, binary(transaction), outcome)


def message(identifier, properties, body):
    """A message of these application properties, whose body is a text."""
    pairs = [text(part) for pair in properties.items() for part in pair]
    sections = [
        composite(0x73, text(identifier)),
        described(0x74, compound(b"\xd1", pairs)),
        described(0x77, text(body)),
    ]
    return b"".join(sections)


# Where transactions are declared.
COORDINATOR = described(0x30, compound(b"\xd0", []))

ATTACH, FLOW_FRAME, TRANSFER, DISPOSITION, DETACH = 18, 19, 20, 21, 22


class Peer:
    """A connection that has shown a key and begun a session, and what comes over it."""

    def __init__(self, stream, rule, key):
        self.stream, self.buffer, self.is_open = stream, b"", True
        stream.sendall(plain(rule, key) + begun())

    def send(self, *frames):
        self.stream.sendall(b"".join(frames))

    def read(self, deadline):
        """The next performative, by its code and fields; `None` when nothing comes any more."""
        while True:
            if self.buffer[:4] == b"AMQP" and len(self.buffer) >= 8:
                self.buffer = self.buffer[8:]
                continue
            length = struct.unpack(">I", self.buffer[:4])[0] if len(self.buffer) >= 4 else 8
            if len(self.buffer) >= max(length, 8):
                whole, self.buffer = self.buffer[:length], self.buffer[length:]
                if length > 8 and whole[5] == 0:
                    return decode_frame(memoryview(whole[4 * whole[4] :]))
                continue
            left = deadline - time.monotonic()
            if left <= 0:
                return None
            self.stream.settimeout(left)
            try:
                more = self.stream.recv(65_536)
            except OSError:
                return None
            if not more:
                return None
            self.buffer += more
