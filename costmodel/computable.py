"""Numbers that documents may have and that no result comes of: refused with a name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from pydantic import ValidationError

from meshwright.schema import InvalidInput


@contextmanager
def computable(what: str) -> Iterator[None]:
    """InvalidInput where a result is beyond what floating-point numbers hold."""
    try:
        with np.errstate(over="raise", divide="raise", invalid="raise"):
            yield
    except (ArithmeticError, ValidationError):
        raise InvalidInput(
            f"nothing can be computed of {what}: a number in it is too large or too small"
        ) from None
