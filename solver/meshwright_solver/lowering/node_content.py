"""Node content: states and tables that nodes of a lowered graph share."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

from meshwright_solver.common.arrays import FloatArray, IntArray
from meshwright_solver.common.identity_keys import IdentityKey, IdentityKeys
from meshwright_solver.layouts.states import StateSpace
from meshwright_solver.lowering.read_states import ReadStates
from meshwright_solver.strategies.op_model import OpModel

Table = tuple[FloatArray, FloatArray | None]  # cost, memory


@dataclass(frozen=True, slots=True)
class OpContent:
    """Lowered content of ops with one model and the same choices.

    reads: for inputs that are not free, the port, the states needed, and whether the input is
    gathered again in the backward pass. makes: for such outputs, the port, the states and the
    projection.
    """

    model: OpModel
    choices: IntArray
    cost: FloatArray
    parameters: tuple[int, ...]
    reads: tuple[tuple[int, IntArray, bool], ...]
    makes: tuple[tuple[int, IntArray, IntArray], ...]


@dataclass(frozen=True, slots=True)
class TableSource:
    """Edge tables to readers, by the states needed and whether the value is gathered again."""

    make: Callable[[IntArray, bool], Table]
    key_of: IdentityKeys = field(default_factory=IdentityKeys)
    tables: dict[tuple[IdentityKey, bool], Table] = field(default_factory=dict)

    def table(self, needed: IntArray, again: bool) -> Table:
        key = (self.key_of(needed), again)
        table = self.tables.get(key)
        if table is None:
            table = self.tables[key] = self.make(needed, again)
        return table


@dataclass(frozen=True, slots=True)
class ReadContent:
    """Read node. edge: from the value at rest."""

    states: ReadStates
    cost: FloatArray
    edge: Table
    source: TableSource


@dataclass(frozen=True, slots=True)
class RestContent:
    """Value at rest, or parameter. reads: by the models of the readers."""

    space: StateSpace
    states: IntArray
    node: Table
    source: TableSource
    reads: dict[Hashable, ReadContent] = field(default_factory=dict)
