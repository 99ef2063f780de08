"""The weight of a body: by its values and its text, however it is encoded."""

from __future__ import annotations

import gzip
from dataclasses import replace

import pytest
import zstandard

from meshwright.schema import TooLarge
from meshwright_service.api.body_weight import TEXT_BYTES, VALUE_BYTES, WIDEST, body_weight
from meshwright_service.api.request_limits import Limits
from meshwright_service.common.content_encodings import GZIP_PIECE, decoded_pieces
from meshwright_service.common.errors import DamagedBody
from meshwright_service.common.settings import Settings

LIMITS = Limits.of(Settings())
TEXT = b'{"a":["b","c"]}'  # one object, one array, one comma
PACKED = {
    "identity": bytes,
    "gzip": lambda data: gzip.compress(data, mtime=0),
    "zstd": zstandard.compress,
}


@pytest.mark.parametrize("encoding", PACKED)
def test_a_body_weighs_the_same_in_every_encoding(encoding: str) -> None:
    weight = body_weight(encoding, PACKED[encoding](TEXT), LIMITS)
    assert weight == 3 * VALUE_BYTES + len(TEXT) * TEXT_BYTES


@pytest.mark.parametrize("text", ['["é"]'.encode(), b'["\\u00e9"]'])
def test_text_that_is_not_ascii_weighs_four_times_as_much(text: bytes) -> None:
    assert body_weight("", text, LIMITS) == VALUE_BYTES + len(text) * TEXT_BYTES * WIDEST


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
@pytest.mark.parametrize("length", [0, 1, GZIP_PIECE - 1, GZIP_PIECE, 3 * GZIP_PIECE, 9 << 20])
def test_pieces_are_the_whole_body(encoding: str, length: int) -> None:
    data = bytes(range(256)) * (length // 256) + b"x" * (length % 256)
    assert b"".join(decoded_pieces(encoding, PACKED[encoding](data))) == data


def test_a_gzip_piece_is_short_however_much_it_stands_for() -> None:
    packed = gzip.compress(bytes(64 << 20), mtime=0)
    assert max(map(len, decoded_pieces("gzip", packed))) == GZIP_PIECE


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_counting_ends_at_the_limit(encoding: str) -> None:
    limits = replace(LIMITS, body_bytes=GZIP_PIECE, body_values=10)
    with pytest.raises(TooLarge, match="MESHWRIGHT_MAX_BODY_VALUES"):
        body_weight(encoding, PACKED[encoding](b"[" * 11), limits)
    cut = PACKED[encoding](bytes(32 << 20))[:-9]  # the limit is met before the damage
    with pytest.raises(TooLarge, match="MESHWRIGHT_MAX_BODY_BYTES"):
        body_weight(encoding, cut, limits)
    with pytest.raises(DamagedBody):
        body_weight(encoding, PACKED[encoding](TEXT)[:-1], limits)
