"""Journal of a measurement for resumption: one JSON object per line."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from meshwright.schema import InvalidInput
from meshwright.schema.samples import CollectiveSample, KernelSample

Sample = KernelSample | CollectiveSample


class Journal:
    """Samples by the key of their task.

    `about` identifies the cluster; a journal of another cluster raises InvalidInput. A truncated
    last line is dropped and overwritten.
    """

    def __init__(self, path: Path, about: dict[str, Any]) -> None:
        self._path = path
        self.samples: dict[str, Sample] = {}
        valid_bytes = self._read(about)
        if valid_bytes:
            self._write(lambda file: file.truncate(valid_bytes), "r+b")
        else:
            line = _line({"about": about})
            self._write(lambda file: file.write(line), "wb")

    def add(self, key: str, sample: Sample) -> None:
        """Append a sample; it is on disk when this returns."""
        line = _line({"key": key, "sample": sample.model_dump(mode="json")})
        self._write(lambda file: file.write(line), "ab")
        self.samples[key] = sample

    def _write(self, change: Callable[[IO[bytes]], object], mode: str) -> None:
        try:
            with self._path.open(mode) as file:
                change(file)
                file.flush()
                os.fsync(file.fileno())
        except OSError as failure:
            raise InvalidInput(f"{self._path} cannot be written: {failure.strerror}") from None

    def _read(self, about: dict[str, Any]) -> int:
        """Load the samples; returns the number of valid bytes of the file."""
        try:
            lines = self._path.read_bytes().splitlines(keepends=True)
        except FileNotFoundError:
            return 0
        except OSError as failure:
            raise InvalidInput(f"{self._path} cannot be read: {failure.strerror}") from None
        if not lines or not lines[-1].endswith(b"\n"):
            lines = lines[:-1]
        if not lines:
            return 0
        records = [_parse(line, self._path) for line in lines]
        if records[0].get("about") != about:
            raise InvalidInput(
                f"{self._path} holds samples of another cluster ({records[0].get('about')}, now "
                f"{about}). Remove it, or name another output file"
            )
        for record in records[1:]:
            self.samples[record["key"]] = _sample(record["sample"])
        return sum(map(len, lines))


def _line(record: dict[str, Any]) -> bytes:
    return json.dumps(record).encode() + b"\n"


def _parse(line: bytes, path: Path) -> dict[str, Any]:
    try:
        record = json.loads(line)
        assert isinstance(record, dict)
    except (ValueError, AssertionError):
        raise InvalidInput(f"{path} is not a journal of samples: {line[:60]!r}") from None
    return record


def _sample(values: dict[str, Any]) -> Sample:
    kind: type[Sample] = CollectiveSample if "payload_bytes" in values else KernelSample
    return kind.model_validate(values)
