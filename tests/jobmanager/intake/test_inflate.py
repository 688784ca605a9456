"""Compressed bodies are read in pieces of any size, and never grow beyond the limit.

Not covered: the time for many of them.
"""

from __future__ import annotations

import gzip
import random

import pytest

from jobmanager.intake.errors import BodyTooLargeError, ContentEncodingError, PostError, status_of
from jobmanager.intake.inflate import Inflater

MOST = 5 << 20
CONTENTS = {
    "empty": b"",
    "short": b"{}\n",
    "long": b'{"a": 1}\n' * 400_000,
    "exact": bytes(1 << 20),
    "noise": random.Random(1).randbytes(1 << 20),
}


def inflated(body: bytes, step: int, encoding: str = "gzip", most: int = MOST) -> bytes:
    inflater = Inflater(encoding, most)
    parts = (body[at : at + step] for at in range(0, len(body), step))
    found = b"".join(piece for part in parts for piece in inflater.pieces(part))
    inflater.finish()
    return found


@pytest.mark.parametrize("name", CONTENTS)
def test_a_body_is_restored_for_any_division_into_pieces(name: str) -> None:
    content = CONTENTS[name]
    for body in (gzip.compress(content), gzip.compress(content[:2]) + gzip.compress(content[2:])):
        for step in (len(body), 65_536, max(1, len(body) // 3)):
            assert inflated(body, step) == content
        assert inflated(body, len(body), " X-GZIP ") == content
    for plain in ("", "identity"):
        assert inflated(content, 65_536, plain) == content


def test_a_body_is_limited_while_it_is_decompressed() -> None:
    body = gzip.compress(bytes(1 << 26))
    assert len(body) < MOST
    with pytest.raises(BodyTooLargeError, match="the post is larger than 1000 bytes"):
        inflated(body, 65_536, most=1_000)
    assert inflated(gzip.compress(bytes(1_000)), 9, most=1_000) == bytes(1_000)
    with pytest.raises(BodyTooLargeError):
        inflated(bytes(1_001), 9, "", most=1_000)


def test_data_that_is_not_gzip_is_rejected() -> None:
    whole = gzip.compress(b"{}\n" * 100)
    for body in (b"{}", whole[:-1], whole[:5], b"", whole + b"more", whole[:-8] + bytes(8)):
        with pytest.raises(PostError, match="gzip"):
            inflated(body, 7)
    with pytest.raises(
        ContentEncodingError, match="Content-Encoding br is not supported: send"
    ) as found:
        Inflater("br", MOST)
    assert status_of(found.value) == 415
