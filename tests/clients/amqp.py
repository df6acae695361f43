"""As much of AMQP 1.0's encoding as it takes to write frames that no client writes."""

import struct

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


def attach(handle, role, address, name="link"):
    node = compound(b"\xd0", [text(address)])
    fields = [described(0x28, node), described(0x29, node), NULL, NULL, uint(0)]
    return frame(composite(0x12, text(f"{name}-{handle}"), uint(handle), role, NULL, NULL, *fields))


def transfer(handle, delivery, payload, more=False):
    head = [uint(handle), uint(delivery), binary(b"tag"), uint(0), YES, YES if more else NO]
    return frame(composite(0x14, *head) + payload)


def message(identifier, properties, body):
    """A message of these application properties, whose body is a text."""
    pairs = [text(part) for pair in properties.items() for part in pair]
    sections = [
        composite(0x73, text(identifier)),
        described(0x74, compound(b"\xd1", pairs)),
        described(0x77, text(body)),
    ]
    return b"".join(sections)


def _sized(constructor, content):
    return constructor + struct.pack(">I", len(content)) + content
