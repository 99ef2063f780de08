"""A plan as it is drawn, by numbers: small enough to be kept and read again in a moment.

Modules and ops that are drawn are numbered in the order of the tree, so that the ops in a module
are neighbours. Of an op there is only the name here: what is said of it is in parts of their own,
which are read when it is shown.
"""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from meshwright.schema.plan import Direction

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
DIRECTIONS: tuple[Direction, ...] = ("forward", "backward", "step")  # by their numbers


@dataclass(frozen=True, slots=True)
class Csr:
    """Rows of numbers of different lengths: row k is values[starts[k] : starts[k + 1]]."""

    starts: Ints
    values: Ints

    @classmethod
    def of(cls, rows: Sequence[Sequence[int]]) -> Csr:
        starts = np.zeros(len(rows) + 1, np.int64)
        np.cumsum([len(row) for row in rows], out=starts[1:])
        return cls(starts, np.array([value for row in rows for value in row], np.int64))

    def row(self, k: int) -> list[int]:
        found: list[int] = self.values[self.starts[k] : self.starts[k + 1]].tolist()
        return found

    def rows(self, chosen: Ints) -> tuple[Ints, Ints]:
        """The values of these rows, one behind the other, and of which of `chosen` each is."""
        lengths = self.starts[chosen + 1] - self.starts[chosen]
        owner = np.repeat(np.arange(len(chosen)), lengths)
        within = np.arange(len(owner)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        return self.values[self.starts[chosen][owner] + within], owner


@dataclass(frozen=True, slots=True)
class Texts:
    """Names, by the numbers that `Drawing` has. ops: of all ops of the plan, also of those that
    others are drawn for. axes: sets of mesh axes."""

    modules: list[str]
    ops: list[str]
    tensors: list[str]
    collectives: list[str]
    axes: list[list[str]]


@dataclass(frozen=True, slots=True)
class GraphArrays:
    """A plan that can be drawn.

    Of every module m, the outermost one 0: its parent (-1 of none), the ops first[m] … last[m] - 1
    in it, how many copies it stands for, itself one; of all that is in it, but of one copy: ops,
    times, bytes and, as a number of `texts.axes`, the mesh axes that shard something made there.
    parts: what is in it, in order: k for the op k, -1 - m for the module m.

    Of every op k: module[k], and drawn[k], its number among all ops of the plan. Of all ops of the
    plan: stage, and stands[…], the op that is drawn for it.

    Of every arrow: the ops that make and read the tensor. moves: the redistributions on the way,
    their ns over a step and their steps; of every step what Moved says.
    """

    texts: Texts
    parent: Ints
    first: Ints
    last: Ints
    copies: Ints
    ops: Ints
    compute_ns: Floats
    communication_ns: Floats
    saved_bytes: Ints
    parameter_bytes: Ints
    axes: Ints
    parts: Csr
    module: Ints
    drawn: Ints
    stage: Ints
    stands: Ints
    maker: Ints
    reader: Ints
    tensor: Ints
    moves: Csr
    move_ns: Floats
    steps: Csr
    step_tensor: Ints
    step_collective: Ints
    step_axes: Ints
    step_direction: Ints
    step_bytes: Ints
    step_ns: Floats

    def op_id(self, op: int) -> str:
        """The id of the box of an op that is drawn."""
        at = self.drawn[op]
        return f"{self.stage[at]}:{self.texts.ops[at]}"

    def label(self, module: int) -> str:
        """What stands on a module, without its copies."""
        id_ = self.texts.modules[module]
        return id_.rpartition(".")[2] or id_

    def above(self, op: int) -> tuple[str, ...]:
        """The modules around an op, the outermost first."""
        found = []
        module = int(self.module[op])
        while module > 0:
            found.append(self.texts.modules[module])
            module = int(self.parent[module])
        return tuple(reversed(found))

    def to_bytes(self) -> bytes:
        """To be kept; see `from_bytes`."""
        texts = json.dumps([getattr(self.texts, own.name) for own in fields(Texts)]).encode()
        made = io.BytesIO()
        np.save(made, np.frombuffer(texts, np.uint8))
        for array in _arrays(self):
            np.save(made, array)
        return made.getvalue()

    @classmethod
    def from_bytes(cls, content: bytes) -> GraphArrays:
        """What `to_bytes` gave."""
        given = io.BytesIO(content)

        def array() -> NDArray[Any]:
            found: NDArray[Any] = np.load(given, allow_pickle=False)
            return found

        texts = Texts(*json.loads(array().tobytes()))
        rest = [own.name for own in fields(cls) if own.name != "texts"]
        columns: dict[str, Any] = {
            name: Csr(array(), array()) if name in CSR else array() for name in rest
        }
        return cls(texts, **columns)


CSR = ("parts", "moves", "steps")


def _arrays(drawing: GraphArrays) -> list[NDArray[Any]]:
    found: list[NDArray[Any]] = []
    for own in fields(GraphArrays):
        value = getattr(drawing, own.name)
        if isinstance(value, Csr):
            found += [value.starts, value.values]
        elif own.name != "texts":
            found.append(value)
    return found
