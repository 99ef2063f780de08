"""A table of runs as people write it: the rows of a file, and what a cell says.

Files are CSV, gzipped or not, in UTF-8 or UTF-16, with commas, semicolons or tabs and any ends of
lines; names of columns may have capitals and spaces around them. Words stand for numbers and for
silence; of an amount and its unit the amount counts.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import math
import re
import zlib
from collections.abc import Mapping
from pathlib import Path

from meshwright.schema import InvalidInput

Row = Mapping[str, str]

LARGEST = 1e18  # chosen: of what a cell counts; its inverse is the smallest
LARGEST_CELL = 2**24  # chosen: characters; Python's own limit is 131,072
SILENT = ("", "-", "–", "?", "auto", "default", "n/a", "na", "nan", "none", "null", "unknown",
           "unstated")  # fmt: skip
_YES = ("true", "t", "yes", "y", "on", "enabled")
_NO = ("false", "f", "no", "n", "off", "disabled")
# an amount, and what may follow it: a unit, or words of their own
_AMOUNT = re.compile(
    r"[~≈]?([-+]?(?:\d[\d_,]*(?:\.\d*)?|\.\d+)(?:e[-+]?\d+)?)"
    r"(?:\s*(?:gi?b|gbit|gbps|tflops?)(?:/s)?\b.*|\s+(?![kmb]\b).*|\(.*)?"
)


class NotPredictable(ValueError):
    """A row that says too little; the message says what lacks."""


def read(path: Path) -> list[Row]:
    """The rows of a file; InvalidInput for one that cannot be read or is no table."""
    try:
        content = path.read_bytes()
        if content.startswith(b"\x1f\x8b"):
            content = gzip.decompress(content)
        text = _decoded(content)
        csv.field_size_limit(LARGEST_CELL)
        first, _, _ = text.partition("\n")
        separator = max(",;\t", key=first.count)
        lines = csv.DictReader(io.StringIO(text, newline=None), delimiter=separator)
        return [_row(line) for line in lines]
    except (csv.Error, EOFError, zlib.error) as error:
        raise InvalidInput(f"{path} is no table: {error}") from None
    except OSError as failure:
        raise InvalidInput(f"{path} cannot be read: {failure.strerror or failure}") from None


def _decoded(content: bytes) -> str:
    wide = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return content.decode("utf-16" if wide else "utf-8-sig", errors="replace").replace("\0", "")


def _row(line: Mapping[str | None, str | list[str] | None]) -> Row:
    """Without cells beyond the last column; those that lack are silent."""
    return {
        name.strip().lower(): value or ""
        for name, value in line.items()
        if name is not None and not isinstance(value, list)
    }


def text_of(row: Row, name: str) -> str:
    """What a column says, in small letters."""
    return (row.get(name) or "").strip().lower()


def number(row: Row, name: str, default: float) -> float:
    """A number that a run can have, `default` where a column is silent; else NotPredictable."""
    text = text_of(row, name)
    if text in SILENT:
        return default
    if text in _YES:
        return 1.0
    if text in _NO:
        return 0.0
    known = _AMOUNT.fullmatch(text)
    found = float(known[1].replace(",", "").replace("_", "")) if known else math.nan
    if found and not 1 / LARGEST < abs(found) < LARGEST:
        raise NotPredictable(f"{name} is {text[:40]!r}, needed: a number")
    return found


def amount(row: Row, name: str, default: float) -> float:
    """A positive number, `default` where a column is silent or 0; NotPredictable below 0."""
    found = number(row, name, default)
    if found < 0:
        raise NotPredictable(f"{name} is {text_of(row, name)!r}, needed: a number above 0")
    return found or default


def count(row: Row, name: str, default: float = 1.0) -> int:
    """A whole number of at least 1, `default` where a column is silent or 0."""
    return max(1, round(amount(row, name, default)))


def flag(row: Row, name: str, default: float, kinds: str) -> float:
    """1 or 0: of a column that may name a kind in place of yes, `kinds` are those that count."""
    try:
        return float(number(row, name, default) > 0)
    except NotPredictable:
        return float(re.search(kinds, text_of(row, name)) is not None)


def needed(row: Row, name: str) -> float:
    """A positive number; NotPredictable where the row has none."""
    found = number(row, name, math.nan)
    if not found > 0:
        raise NotPredictable(f"{name} is {text_of(row, name) or 'not stated'!r}, needed: a number")
    return found


def measured(row: Row, name: str) -> float:
    """A positive number; NaN where the row has none, or a word in its place."""
    try:
        return amount(row, name, math.nan)
    except NotPredictable:
        return math.nan
