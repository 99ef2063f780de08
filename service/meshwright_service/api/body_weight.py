"""The weight of a body: an estimate of the memory that parsing it takes.

    weight = VALUE_BYTES * values + TEXT_BYTES * width * decoded bytes

values: the commas and opening brackets of the body. width: bytes of a character in Python: 1 for
ASCII without escapes, else 4.

Both constants are peaks of resident memory of reading a graph (JSON, document, canonical text,
compression). The bodies had one kind of value: 1,000,000 to 4,000,000 values, or strings of 60,000
characters in 20 MB. CPython 3.11, pydantic 2.14.
"""

from __future__ import annotations

from meshwright_service.api.request_limits import Limits
from meshwright_service.common.content_encodings import Bytes, decoded_pieces

VALUE_BYTES = 320  # measured: {"b":1} 311, names of fields 299, tensors 203, strings 145
TEXT_BYTES = 6  # measured: 5.0 of ASCII; 24.9 of a body whose characters take 4 bytes
WIDEST = 4  # bytes of a character beyond U+FFFF


def body_weight(encoding: str, data: Bytes, limits: Limits) -> int:
    """The weight of a body as sent, in bytes; raises TooLarge or DamagedBody.

    The body is decoded in pieces and not held.
    """
    decoded_bytes = values = 0
    is_wide = False
    for piece in decoded_pieces(encoding, data):
        decoded_bytes += len(piece)
        limits.check_bytes(decoded_bytes)
        values += sum(map(piece.count, (b",", b"[", b"{")))
        limits.check_values(values)
        is_wide = is_wide or not piece.isascii() or b"\\" in piece
    width = WIDEST if is_wide else 1
    return VALUE_BYTES * values + TEXT_BYTES * width * decoded_bytes
