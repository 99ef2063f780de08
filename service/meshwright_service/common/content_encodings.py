"""Content encodings of request bodies: gzip, zstd and none, decoded piece by piece.

A body of 16 KiB can stand for 512 MiB. A piece has bounded length, so that a reader can stop, or
count a body without holding it.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator

import zstandard

from meshwright_service.common.errors import DamagedBody, WrongContentType

Bytes = bytes | bytearray

GZIP_FED = 1 << 16  # bytes; chosen: zlib copies what it has not read yet for every piece
GZIP_PIECE = 1 << 20  # bytes; chosen
# chosen: a zstd block of 4 bytes can stand for 128 KiB, so 256 bytes decode to 8 MiB at most
ZSTD_FED = 256
ZSTD_WINDOW = 8 << 20  # chosen: what the format asks every decoder to support


def check_encoding(encoding: str) -> None:
    """Raises WrongContentType of an encoding that is not supported."""
    _decoder(encoding)


def is_compressed(encoding: str) -> bool:
    """Whether the decoded bytes are others than those that were sent."""
    return _decoder(encoding) is not _identity


def decoded_pieces(encoding: str, data: Bytes) -> Iterator[Bytes]:
    """The decoded body; raises DamagedBody, after the pieces that precede the damage."""
    return _decoder(encoding)(data)


def _decoder(encoding: str) -> Callable[[Bytes], Iterator[Bytes]]:
    match encoding:
        case "" | "identity":
            return _identity
        case "gzip" | "x-gzip":
            return _gunzipped
        case "zstd":
            return _unzstd
    raise WrongContentType(
        f"the content encoding {encoding[:40]!r} is not understood; send gzip, zstd or none"
    )


def _identity(data: Bytes) -> Iterator[Bytes]:
    yield data


def _gunzipped(data: Bytes) -> Iterator[Bytes]:
    stream = zlib.decompressobj(wbits=31)
    view = memoryview(data)
    for start in range(0, len(data), GZIP_FED):
        if stream.eof:
            raise DamagedBody("bytes follow the end of the gzip data; send one member")
        fed: bytes | memoryview = view[start : start + GZIP_FED]
        is_full = True
        while (fed or is_full) and not stream.eof:
            try:
                piece = stream.decompress(fed, GZIP_PIECE)
            except zlib.error as failure:
                raise DamagedBody(f"the body is not valid gzip: {failure}") from None
            yield piece
            fed, is_full = stream.unconsumed_tail, len(piece) == GZIP_PIECE
    if not stream.eof:
        raise DamagedBody("the gzip data ends before its end: it was cut off")
    if stream.unused_data:
        raise DamagedBody("bytes follow the end of the gzip data; send one member")


def _unzstd(data: Bytes) -> Iterator[Bytes]:
    stream = zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW).decompressobj()
    view = memoryview(data)
    for start in range(0, len(data), ZSTD_FED):
        if stream.eof:
            raise DamagedBody("bytes follow the end of the zstd data; send one frame")
        try:
            piece = stream.decompress(view[start : start + ZSTD_FED])
        except zstandard.ZstdError as failure:
            raise DamagedBody(f"the body is not valid zstd: {failure}") from None
        yield piece
    if not stream.eof:
        raise DamagedBody("the zstd data ends before its end: it was cut off")
    if stream.unused_data:
        raise DamagedBody("bytes follow the end of the zstd data; send one frame")
