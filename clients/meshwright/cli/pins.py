"""Pins as people type them: `*.q_proj:n=gpu` or `*.mlp.*:b=node,n=gpu_0+gpu_1`."""

from __future__ import annotations

from meshwright.schema import Pin, RequestError
from meshwright.schema.mesh import Axis

MAX_GLOB = 512  # characters, as the contract says


def parse_pin(text: str) -> Pin:
    """The pin in `op-glob:factor=axis+axis,factor=axis`; `op-glob:` keeps the op whole."""
    op, colon, strategy = text.rpartition(":")
    if len(op) > MAX_GLOB:
        raise _wrong(text, f"a glob has at most {MAX_GLOB} characters")
    if not colon or not op:
        raise _wrong(text, "it has no ':' between the ops and their strategy")
    split: dict[str, tuple[Axis, ...]] = {}
    for part in filter(None, (part.strip() for part in strategy.split(","))):
        factor, equals, axes = (piece.strip() for piece in part.partition("="))
        if not equals or not factor.isidentifier():
            raise _wrong(text, f"{part!r} is not factor=axis")
        if factor in split:
            raise _wrong(text, f"the factor {factor!r} is given twice")
        split[factor] = tuple(Axis(axis.strip()) for axis in axes.split("+") if axis.strip())
    return Pin(op=op, strategy=split)


def _wrong(text: str, why: str) -> RequestError:
    return RequestError(
        f"pin {text[:80]!r}: {why}; write op-glob:factor=axis,… such as '*.q_proj:n=gpu'",
        pointer="/pins",
    )
