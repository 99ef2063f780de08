"""Guard against numeric overflow from extreme numbers in documents."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from meshwright.schema import InvalidInput


@contextmanager
def computable(what: str) -> Iterator[None]:
    """Raise InvalidInput where a result is outside the range of floating-point numbers."""
    try:
        with np.errstate(over="raise", divide="raise", invalid="raise"):
            yield
    except (ArithmeticError, InvalidInput) as wrong:
        if isinstance(wrong, InvalidInput) and not wrong.fault:
            raise
        raise InvalidInput(
            f"nothing can be computed of {what}: a number in it is too large or too small"
        ) from None
