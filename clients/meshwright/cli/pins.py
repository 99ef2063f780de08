"""Pins as people type them.

*.q_proj:n=gpu                        axes on factors
*.q_proj:((dp,1),(tp,1))->((dp,1,tp),)    cuts of inputs, and of outputs: axes or numbers of parts
encoder.*:data_parallel
"""

from __future__ import annotations

import re

from meshwright.schema import Pin, RequestError
from meshwright.schema.dim_cuts import Cut, Cuts
from meshwright.schema.mesh import Axis

MAX_GLOB = 512  # characters, as the contract says
OPEN = "_"  # an input or output of which nothing is said
_TENSORS = re.compile(r"\(\s*((?:(?:\([^()]*\)|_)\s*(?:,\s*|(?=\))))*)\)\Z")
_TENSOR = re.compile(r"\(([^()]*)\)|_")


def parse_pin(text: str) -> Pin:
    """The pin in `op-glob:strategy`; `op-glob:` keeps the op whole."""
    op, colon, strategy = (piece.strip() for piece in text.rpartition(":"))
    if len(op) > MAX_GLOB:
        raise _wrong(text, f"a glob has at most {MAX_GLOB} characters")
    if not colon or not op:
        raise _wrong(text, "it has no ':' between the ops and their strategy")
    if strategy == "data_parallel":
        return Pin(op=op, data_parallel=True)
    if strategy.startswith(("(", "->")):
        given, _, made = (piece.strip() for piece in strategy.partition("->"))
        return Pin(
            op=op,
            inputs=_tensors(text, given) if given else None,
            outputs=_tensors(text, made) if made else None,
        )
    split: dict[str, tuple[Axis, ...]] = {}
    for part in filter(None, (part.strip() for part in strategy.split(","))):
        factor, equals, axes = (piece.strip() for piece in part.partition("="))
        if not equals or not factor.isidentifier():
            raise _wrong(text, f"{part!r} is not factor=axis")
        if factor in split:
            raise _wrong(text, f"the factor {factor!r} is given twice")
        split[factor] = _axes(axes)
    return Pin(op=op, strategy=split)


def parse_tensors(text: str, option: str) -> tuple[Cuts | None, ...]:
    """The cuts in `((8,1),_)`, one for every tensor; RequestError names the option."""
    try:
        return _tensors(text, text)
    except RequestError:
        raise RequestError(
            f"{option}: {text[:80]!r} is not a list of cuts such as '((8,1),(dp,1),_)'"
        ) from None


def _tensors(text: str, written: str) -> tuple[Cuts | None, ...]:
    """The cuts of every tensor in `((8,1),(1,tp))`."""
    whole = _TENSORS.match(written)
    if whole is None:
        raise _wrong(text, f"{written!r} is not a list of cuts, one for every tensor")
    return tuple(
        None if one[0] == OPEN else _cuts(text, one[1]) for one in _TENSOR.finditer(whole[1])
    )


def _cuts(text: str, written: str) -> Cuts:
    dims = [dim.strip() for dim in written.split(",")]
    if dims[-1] == "":
        dims.pop()
    return tuple(_cut(text, dim) for dim in dims)


def _cut(text: str, written: str) -> Cut:
    if written.isascii() and written.isdigit():
        if int(written) < 1:
            raise _wrong(text, "a dim is cut into 1 part at least")
        return int(written)
    axes = _axes(written)
    if not axes or not all(axis.isidentifier() for axis in axes):
        raise _wrong(text, f"{written!r} is neither axes nor a number of parts")
    return axes


def _axes(written: str) -> tuple[Axis, ...]:
    return tuple(Axis(axis.strip()) for axis in written.split("+") if axis.strip())


def _wrong(text: str, why: str) -> RequestError:
    return RequestError(
        f"pin {text[:80]!r}: {why}; write op-glob:factor=axis,… such as '*.q_proj:n=gpu', "
        "op-glob:((cut,…),…) for its inputs, or op-glob:data_parallel",
        pointer="/pins",
    )
