"""Documents in files: plain, .gz or .zst; written whole or not at all."""

from __future__ import annotations

import gzip
import os
import tempfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, TypeVar

from meshwright.schema import Document, InvalidInput, MeshwrightError, TooLarge, Unavailable

D = TypeVar("D", bound=Document)
MAX_BYTES = 512 * 2**20  # of a decoded file; chosen: eight times the largest upload


def read_text(path: Path, *, max_bytes: int = MAX_BYTES) -> bytes:
    """The decoded content; InvalidInput where there is none, TooLarge beyond max_bytes."""
    try:
        with path.open("rb") as stream:
            text = _decoder(path)(stream, max_bytes + 1)
    except OSError as failure:
        raise InvalidInput(f"{path} cannot be read: {failure.strerror or failure}") from None
    if len(text) > max_bytes:
        raise TooLarge(f"{path} has more than {max_bytes:,} bytes once decoded")
    return text


def read_document(path: Path, kind: type[D]) -> D:
    """The document in a file; raises the error of its kind, and names the file."""
    try:
        return kind.from_json(read_text(path))
    except MeshwrightError as wrong:
        if str(path) in wrong.detail:
            raise
        raise type(wrong)(f"{path}: {wrong.detail}", pointer=wrong.pointer) from None


def write_whole(path: Path, text: str) -> None:
    """Write a file, compressed as its name says; what was there stays until all is written.

    A link stays, and the file it leads to is written. What is no file (/dev/null, a pipe) is
    written to, not replaced.
    """
    data = text.encode()
    if path.suffix == ".gz":
        data = gzip.compress(data, mtime=0)
    elif path.suffix == ".zst":
        data = _zstandard().ZstdCompressor().compress(data)
    try:
        if path.exists() and not path.is_file() and not path.is_dir():
            path.write_bytes(data)
        else:
            _replace(path.resolve(), data)
    except (OSError, RuntimeError) as failure:
        said = getattr(failure, "strerror", None) or failure
        raise InvalidInput(f"{path} cannot be written: {said}") from None


def _replace(path: Path, data: bytes) -> None:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(name, 0o666 & ~umask)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


def _decoder(path: Path) -> Callable[[IO[bytes], int], bytes]:
    if path.suffix == ".gz":
        return _gunzip
    return _unzstd if path.suffix == ".zst" else lambda stream, count: stream.read(count)


def _gunzip(stream: IO[bytes], count: int) -> bytes:
    try:
        return gzip.GzipFile(fileobj=stream).read(count)
    except (EOFError, gzip.BadGzipFile, zlib.error) as failure:
        raise InvalidInput(f"{stream.name} is not whole gzip data: {failure}") from None


def _unzstd(stream: IO[bytes], count: int) -> bytes:
    zstandard = _zstandard()
    decoded = bytearray()
    decoder = zstandard.ZstdDecompressor(max_window_size=8 << 20).decompressobj()
    try:
        # a block of 4 bytes can stand for 128 KiB: small pieces keep a bomb from going off at once
        while (piece := stream.read(4096)) and len(decoded) <= count and not decoder.eof:
            for start in range(0, len(piece), 256):
                decoded += decoder.decompress(piece[start : start + 256])
                if len(decoded) > count:
                    return bytes(decoded)
    except zstandard.ZstdError as failure:
        raise InvalidInput(f"{stream.name} is not valid zstd data: {failure}") from None
    if not decoder.eof:
        raise InvalidInput(f"{stream.name} is not whole zstd data: it was cut off")
    return bytes(decoded)


def _zstandard() -> Any:
    try:
        import zstandard
    except ImportError:
        raise Unavailable(
            "files with the name .zst need the package zstandard; install it, or use .gz"
        ) from None
    return zstandard
