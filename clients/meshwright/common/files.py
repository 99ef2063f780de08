"""Document files, plain or compressed as .gz or .zst, with atomic writes."""

from __future__ import annotations

import errno
import gzip
import os
import tempfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, TypeVar

from meshwright.common.example_graphs import located
from meshwright.schema import Document, InvalidInput, MeshwrightError, TooLarge, Unavailable

D = TypeVar("D", bound=Document)
MAX_BYTES = 512 * 2**20  # chosen: of a decoded file, eight times the largest upload


def read_text(path: Path, *, max_bytes: int = MAX_BYTES) -> bytes:
    """The decoded content of a file, or of an example graph by the name `example:NAME`.

    Raises InvalidInput for an unreadable file, TooLarge beyond max_bytes.
    """
    path = located(path)
    try:
        with path.open("rb") as stream:
            text = _decoder(path)(stream, max_bytes + 1)
    except OSError as failure:
        raise InvalidInput(f"{path} cannot be read: {failure.strerror or failure}") from None
    if len(text) > max_bytes:
        raise TooLarge(f"{path} has more than {max_bytes:,} bytes once decoded")
    return text


def read_document(path: Path, kind: type[D]) -> D:
    """The document in a file; errors of its kind name the file."""
    try:
        return kind.from_json(read_text(path))
    except MeshwrightError as wrong:
        if str(path) in wrong.detail:
            raise
        raise type(wrong)(f"{path}: {wrong.detail}", pointer=wrong.pointer) from None


def write_whole(path: Path, text: str) -> None:
    """Replace a file atomically; its name selects the compression.

    For a symbolic link, the target is replaced. Special files (/dev/null, a pipe) are written to,
    not replaced.
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
        reason = getattr(failure, "strerror", None) or failure
        raise InvalidInput(f"{path} cannot be written: {reason}") from None


def check_writable(path: Path) -> None:
    """Raise InvalidInput where `write_whole` cannot write the file; leaves no file behind."""
    if path.suffix == ".zst":
        _zstandard()
    if path.is_dir():
        raise InvalidInput(f"{path} cannot be written: it is a folder. Name a file in it")
    try:
        if path.exists() and not path.is_file():
            if not os.access(path, os.W_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
            return
        with tempfile.NamedTemporaryFile(dir=path.resolve().parent, prefix=f".{path.name}."):
            pass
    except (OSError, RuntimeError) as failure:
        reason = getattr(failure, "strerror", None) or failure
        raise InvalidInput(
            f"{path} cannot be written: {reason}. Name a file in a folder that exists and is "
            "writable"
        ) from None


def cache_folder() -> Path:
    """Meshwright's cache folder, which may not exist."""
    base = os.environ.get("XDG_CACHE_HOME")
    try:
        return (Path(base) if base else Path.home() / ".cache") / "meshwright"
    except RuntimeError:  # no home directory
        return Path(tempfile.gettempdir()) / "meshwright"


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
        # 4 bytes can decode to 128 KiB: small pieces bound the memory of a decompression bomb
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
            "files with the name .zst need the package zstandard. Install it, or use .gz"
        ) from None
    return zstandard
