"""zstd compression of the bytes in the store."""

from __future__ import annotations

import zstandard

LEVEL = 3  # of zstd; chosen: a 4.75 MB graph in 4 ms


def pack(content: bytes) -> bytes:
    """Compress bytes for the store."""
    packed: bytes = zstandard.ZstdCompressor(level=LEVEL).compress(content)
    return packed


def unpack(packed: bytes) -> bytes:
    """Decompress bytes of the store."""
    content: bytes = zstandard.ZstdDecompressor().decompress(packed)
    return content
