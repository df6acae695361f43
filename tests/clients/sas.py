"""SAS tokens as the clients in the field write them. They differ in how they name the version of the
API, write the expiry and escape; each signs its own text as it stands."""

import base64
import datetime
import hashlib
import hmac
import re
from urllib.parse import quote, quote_plus

from azure.eventgrid import generate_sas


def _sign(key, unsigned, escape):
    digest = hmac.new(base64.b64decode(key), unsigned.encode(), hashlib.sha256).digest()
    return f"{unsigned}&s={escape(base64.b64encode(digest).decode())}"


def _token(resource, expiry, key, escape):
    return _sign(key, f"r={escape(resource)}&e={escape(expiry)}", escape)


def _us(when):
    """`1/2/2030 3:04:05 AM`, without padding."""
    clock = f"{when.hour % 12 or 12}:{when:%M:%S} {when:%p}"
    return f"{when.month}/{when.day}/{when.year} {clock}"


def _javascript(text):
    return quote(text, safe="-_.!~*'()")


def _dot_net(text):
    """Lower-case hex, `+` for a blank."""
    return re.sub(r"%[0-9A-F]{2}", lambda found: found[0].lower(), quote_plus(text, safe="-_.!*()"))


def python_sdk(endpoint, key, when):
    return generate_sas(endpoint, key, when)


def python_sdk_without_zone(endpoint, key, when):
    return generate_sas(endpoint, key, when.replace(tzinfo=None, microsecond=123456))


def javascript_sdk(endpoint, key, when):
    return _token(f"{endpoint}?apiVersion=2018-01-01", _us(when), key, _javascript)


def dot_net_sdk(endpoint, key, when):
    return _token(f"{endpoint}?api-version=2018-01-01", f"{_us(when)} +00:00", key, _dot_net)


def documentation_c_sharp(endpoint, key, when):
    return _token(endpoint, _us(when), key, _dot_net)


def documentation_python(endpoint, key, when):
    plain = when.replace(tzinfo=None, microsecond=123456)
    return _token(endpoint, plain.isoformat(), key, quote_plus)


WRITERS = [
    python_sdk,
    python_sdk_without_zone,
    javascript_sdk,
    dot_net_sdk,
    documentation_c_sharp,
    documentation_python,
]


def in_an_hour():
    return _from_now(datetime.timedelta(hours=1))


def an_hour_ago():
    return _from_now(datetime.timedelta(hours=-1))


def _from_now(distance):
    return datetime.datetime.now(datetime.timezone.utc).replace(microsecond=0) + distance
