"""docs/security.md counts the attacks that are tried; its counts are those of the tests."""

import re

import pytest

import test_hostile
import test_http2
import test_ssrf
from appliance import REPOSITORY

DOCUMENT = (REPOSITORY / "docs/security.md").read_text()


def count_of(module):
    return sum(name.startswith("test_") for name in vars(module))


def rounds(path):
    """How often the longest loop of a Rust test goes round."""
    text = (REPOSITORY / path).read_text()
    return max(int(count.replace("_", "")) for count in re.findall(r"in 0\.\.([\d_]+)", text))


@pytest.mark.parametrize(
    ("where", "count"),
    [
        ("tests/clients/test_ssrf.py", len(list(test_ssrf.tries()))),
        ("src/outbound/egress/tests/reference.rs", rounds("src/outbound/egress/tests/reference.rs")),
        ("src/outbound/resolver/tests.rs", rounds("src/outbound/resolver/tests.rs")),
        ("tests/clients/test_hostile.py", count_of(test_hostile)),
        ("tests/clients/test_http2.py", count_of(test_http2)),
    ],
)
def test_the_counts_are_those_of_the_tests(where, count):
    row = re.search(rf"^\|[^|]+\| `{re.escape(where)}` \| ([\d,]+) \|$", DOCUMENT, re.MULTILINE)
    assert row and row[1] == f"{count:,}", f"| … | `{where}` | {count:,} |"
