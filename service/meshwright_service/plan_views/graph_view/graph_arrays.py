"""The graph view of a plan as numpy arrays, compact enough to be stored and read in milliseconds.

Drawn modules and ops are numbered in tree order, so that the ops of a module are consecutive. The
arrays hold only the names of ops; their facts are stored in separate parts and read when shown.
"""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from meshwright.schema.stage import Direction

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
DIRECTIONS: tuple[Direction, ...] = ("forward", "backward", "step")  # by number


@dataclass(frozen=True, slots=True)
class Csr:
    """Compressed sparse rows: row k is values[starts[k] : starts[k + 1]]."""

    starts: Ints
    values: Ints

    @classmethod
    def of(cls, rows: Sequence[Sequence[int]]) -> Csr:
        starts = np.zeros(len(rows) + 1, np.int64)
        np.cumsum([len(row) for row in rows], out=starts[1:])
        return cls(starts, np.array([value for row in rows for value in row], np.int64))

    def row(self, k: int) -> list[int]:
        values: list[int] = self.values[self.starts[k] : self.starts[k + 1]].tolist()
        return values

    def rows(self, chosen: Ints) -> tuple[Ints, Ints]:
        """The concatenated values of the chosen rows, and for each value its index in `chosen`."""
        lengths = self.starts[chosen + 1] - self.starts[chosen]
        owner = np.repeat(np.arange(len(chosen)), lengths)
        within = np.arange(len(owner)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        return self.values[self.starts[chosen][owner] + within], owner


@dataclass(frozen=True, slots=True)
class Texts:
    """Names, by the numbers in `GraphArrays`.

    ops: of all ops of the plan, including folded ones. axes: sets of mesh axes.
    """

    modules: list[str]
    ops: list[str]
    tensors: list[str]
    collectives: list[str]
    axes: list[list[str]]


@dataclass(frozen=True, slots=True)
class GraphArrays:
    """The graph view of a plan.

    For each module m (0 is the root):

    - parent: its parent, -1 for the root.
    - first, last: its ops are first[m] … last[m] - 1.
    - copies: the number of copies that it stands for, including itself.
    - ops, compute_ns, communication_ns, saved_bytes, parameter_bytes: of its content, for one copy.
    - axes: index in `texts.axes` of the mesh axes that shard an output in it.
    - parts: its content in order, k for the op k, -1 - m for the module m.

    For each drawn op k: module[k], and drawn[k], its number among all ops of the plan.
    For each op of the plan: stage, and stands, the drawn op in its place.
    For each arrow: maker and reader, the ops that make and read the tensor; moves, the indices of
    its redistributions. For each move: move_ns over a step and its steps. For each step the fields
    of `Moved`.
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
        """The id of the box of a drawn op."""
        at = self.drawn[op]
        return f"{self.stage[at]}:{self.texts.ops[at]}"

    def label(self, module: int) -> str:
        """The label of a module, without its number of copies."""
        id_ = self.texts.modules[module]
        return id_.rpartition(".")[2] or id_

    def above(self, op: int) -> tuple[str, ...]:
        """The modules around an op, outermost first."""
        modules = []
        module = int(self.module[op])
        while module > 0:
            modules.append(self.texts.modules[module])
            module = int(self.parent[module])
        return tuple(reversed(modules))

    def to_bytes(self) -> bytes:
        """The arrays as bytes; see `from_bytes`."""
        texts = json.dumps([getattr(self.texts, field.name) for field in fields(Texts)]).encode()
        file = io.BytesIO()
        np.save(file, np.frombuffer(texts, np.uint8))
        for array in _arrays(self):
            np.save(file, array)
        return file.getvalue()

    @classmethod
    def from_bytes(cls, content: bytes) -> GraphArrays:
        """Read bytes of `to_bytes`."""
        file = io.BytesIO(content)

        def array() -> NDArray[Any]:
            values: NDArray[Any] = np.load(file, allow_pickle=False)
            return values

        texts = Texts(*json.loads(array().tobytes()))
        names = [field.name for field in fields(cls) if field.name != "texts"]
        columns: dict[str, Any] = {
            name: Csr(array(), array()) if name in CSR else array() for name in names
        }
        return cls(texts, **columns)


CSR = ("parts", "moves", "steps")


def _arrays(drawing: GraphArrays) -> list[NDArray[Any]]:
    arrays: list[NDArray[Any]] = []
    for field in fields(GraphArrays):
        value = getattr(drawing, field.name)
        if isinstance(value, Csr):
            arrays += [value.starts, value.values]
        elif field.name != "texts":
            arrays.append(value)
    return arrays
