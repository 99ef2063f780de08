"""Canonical JSON and content-addressed ids.

Keys are sorted, and there is no white space. Strings are in NFC. Integral floats are integers, and
other floats have the shortest form that reads back the same. -0 is 0. NaN and infinity are invalid.
The id of a document is `<prefix>_<SHA-256 of its canonical JSON, hex>`.
"""

from __future__ import annotations

import hashlib
import json
import math
import unicodedata
from collections import Counter
from collections.abc import Sequence
from typing import Any

from meshwright.schema.errors import InvalidInput

MAX_NESTING = 64


def canonical_json(value: Any, *, depth: int = 0) -> str:
    """The canonical JSON of a value of `json.loads`, `depth` levels below its document.

    Raises InvalidInput for NaN, infinity, other types and nesting beyond MAX_NESTING.
    """
    return json.dumps(
        _normal(value, depth),
        sort_keys=True,
        separators=(",", ":"),
        ensure_ascii=False,
        allow_nan=False,
    )


def digest(prefix: str, value: Any) -> str:
    """The content-addressed id of a JSON value."""
    return digest_of_text(prefix, canonical_json(value))


def digest_of_text(prefix: str, text: str) -> str:
    """The content-addressed id of a JSON value, from its canonical JSON."""
    return f"{prefix}_{hashlib.sha256(text.encode()).hexdigest()}"


def read_object(fields: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """The `object_pairs_hook` of all documents; raises ValueError for a duplicate field."""
    value = dict(fields)
    if len(value) < len(fields):
        counts = Counter(name for name, _ in fields)
        twice = next(name for name, count in counts.items() if count > 1)
        raise ValueError(f"the field {twice[:80]!r} is given twice in one object")
    return value


def _normal(value: Any, depth: int) -> Any:
    if depth > MAX_NESTING:
        raise InvalidInput(f"the document is nested deeper than {MAX_NESTING} levels")
    if isinstance(value, str):
        return value if value.isascii() else _normal_text(value)
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidInput(f"numbers must be finite, got {value}")
        return int(value) if value.is_integer() and abs(value) < 2**53 else value
    if isinstance(value, dict):
        return {_normal(str(key), depth): _normal(item, depth + 1) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_normal(item, depth + 1) for item in value]
    raise InvalidInput(f"a {type(value).__name__} cannot stand in a JSON document")


def _normal_text(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidInput(f"{text[:40]!a} has a lone surrogate") from None
    return unicodedata.normalize("NFC", text)
