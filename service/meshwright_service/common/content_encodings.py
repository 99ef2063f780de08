"""Content encodings of request bodies: gzip, zstd and identity, decoded in pieces.

A body of 16 KiB can decode to 512 MiB. Pieces have bounded length, so that a reader can stop early,
or measure a body without holding it.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator

import zstandard

from meshwright_service.common.errors import DamagedBody, WrongContentType

Bytes = bytes | bytearray

GZIP_CHUNK = 1 << 16  # input bytes; chosen: zlib copies the unread input with every piece
GZIP_PIECE = 1 << 20  # output bytes; chosen
# input bytes; chosen: a zstd block of 4 bytes can decode to 128 KiB, so 256 bytes to at most 8 MiB
ZSTD_CHUNK = 256
ZSTD_WINDOW = 8 << 20  # chosen: the window that RFC 8878 recommends every decoder to support


def check_encoding(encoding: str) -> None:
    """Raise WrongContentType for an unsupported encoding."""
    _decoder(encoding)


def is_compressed(encoding: str) -> bool:
    """Whether the encoding compresses the body."""
    return _decoder(encoding) is not _identity


def decoded_pieces(encoding: str, data: Bytes) -> Iterator[Bytes]:
    """The decoded body in pieces; raises DamagedBody after the pieces before the damage."""
    return _decoder(encoding)(data)


def _decoder(encoding: str) -> Callable[[Bytes], Iterator[Bytes]]:
    match encoding:
        case "" | "identity":
            return _identity
        case "gzip" | "x-gzip":
            return _gunzip
        case "zstd":
            return _unzstd
    raise WrongContentType(
        f"the content encoding {encoding[:40]!r} is not supported. Use gzip, zstd or none"
    )


def _identity(data: Bytes) -> Iterator[Bytes]:
    yield data


def _gunzip(data: Bytes) -> Iterator[Bytes]:
    stream = zlib.decompressobj(wbits=31)
    view = memoryview(data)
    for start in range(0, len(data), GZIP_CHUNK):
        if stream.eof:
            raise DamagedBody("bytes follow the end of the gzip data; send one member")
        chunk: bytes | memoryview = view[start : start + GZIP_CHUNK]
        is_full = True
        while (chunk or is_full) and not stream.eof:
            try:
                piece = stream.decompress(chunk, GZIP_PIECE)
            except zlib.error as failure:
                raise DamagedBody(f"the body is not valid gzip: {failure}") from None
            yield piece
            chunk, is_full = stream.unconsumed_tail, len(piece) == GZIP_PIECE
    if not stream.eof:
        raise DamagedBody("the gzip data ends before its end: it was cut off")
    if stream.unused_data:
        raise DamagedBody("bytes follow the end of the gzip data; send one member")


def _unzstd(data: Bytes) -> Iterator[Bytes]:
    stream = zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW).decompressobj()
    view = memoryview(data)
    for start in range(0, len(data), ZSTD_CHUNK):
        if stream.eof:
            raise DamagedBody("bytes follow the end of the zstd data; send one frame")
        try:
            piece = stream.decompress(view[start : start + ZSTD_CHUNK])
        except zstandard.ZstdError as failure:
            raise DamagedBody(f"the body is not valid zstd: {failure}") from None
        yield piece
    if not stream.eof:
        raise DamagedBody("the zstd data ends before its end: it was cut off")
    if stream.unused_data:
        raise DamagedBody("bytes follow the end of the zstd data; send one frame")
