"""One op of a graph on a toy cluster: its strategies, and the shards that its model speaks of."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from meshwright_solver.problem.op_info import OpInfo, OpPort
from meshwright_solver.strategies.mesh_models import Models
from meshwright_solver.strategies.op_model import OpModel
from tests.solver.devices import HELD, PARTIAL, Array, Cluster, Lay
from tests.solver.small_graphs import GraphMaker

Codes = tuple[int, ...]


class Bench:
    """One op of a graph on a mesh, with the layouts that its model asks for and promises."""

    def __init__(self, found: Models, op: str) -> None:
        self.models = found
        self.position = [own.name for own in found.problem.ops].index(op)
        self.op: OpInfo = found.problem.ops[self.position]
        self.model: OpModel = found.ops.model(self.position)

    def strategies(self, most: int, random: np.random.Generator) -> list[Codes]:
        """Some of those in which no part follows another."""
        rows = [tuple(row) for row in self.model.choices[~self._followed].tolist()]
        return (
            rows if len(rows) <= most else [rows[k] for k in random.permutation(len(rows))[:most]]
        )

    def following(self) -> list[Codes]:
        """All strategies in which a part follows another."""
        return [tuple(row) for row in self.model.choices[self._followed].tolist()]

    @property
    def _followed(self) -> Array:
        codes = [code for code, own in enumerate(self.model.parts_of_code) if len(own) > 1]
        return np.isin(self.model.choices, codes).any(axis=1)

    def followed_axes(self, strategy: Codes) -> list[int]:
        return [a for a, code in enumerate(strategy) if len(self.model.parts_of_code[code]) > 1]

    def cluster(self, port: OpPort) -> Cluster:
        info = self.models.problem.tensors[port.tensor]
        return Cluster(self.model.axis_sizes, tuple(slot.size for slot in info.slots))

    def labels(self, port: OpPort) -> list[int]:
        """The part of every slot."""
        part_of = {slot: part for part, slot in port.slot_of.items()}
        return [part_of[k] for k in range(len(part_of))]

    def lay(self, port: OpPort, state: Codes, *, gradient: bool) -> Lay:
        value = self.models.values.value_of[port.tensor]
        n = len(value.slots)
        partial = n + 2 if gradient else n + 1
        return Lay(
            tuple(
                value.slots[code] if code < n else PARTIAL if code == partial else HELD
                for code in state
            )
        )

    def needed(self, strategy: Codes, k: int) -> Codes:
        return tuple(self.model.required(np.array([strategy]), k)[0].tolist())

    def made(self, strategy: Codes, k: int = 0) -> Codes:
        return tuple(self.model.made(np.array([strategy]), k)[0].tolist())

    def shards(self, port: OpPort, whole: Array, lay: Lay, random: np.random.Generator):
        """Device -> its own array, cut out."""
        cluster = self.cluster(port)
        held = cluster.place(whole, lay, random)
        return {device: held[device][cluster.region(lay, device)] for device in cluster.devices}

    def check(self, port: OpPort, shards: dict[Codes, Array], whole: Array, lay: Lay) -> None:
        cluster = self.cluster(port)
        held: dict[object, Array] = {}
        for device, own in shards.items():
            held[device] = np.full(whole.shape, np.nan)
            held[device][cluster.region(lay, device)] = own  # refuses a wrong shape
        cluster.check(held, whole, lay)

    def whole(self, port: OpPort, random: np.random.Generator) -> Array:
        return random.integers(-5, 5, self.cluster(port).slot_sizes) * 1.0


Local = Callable[[Sequence[Array]], Array]


def run_forward(bench: Bench, strategy: Codes, wholes: Sequence[Array], result: Array, local, rng):
    """local(inputs of one device, device) -> its output."""
    ins = [
        bench.shards(port, whole, bench.lay(port, bench.needed(strategy, k), gradient=False), rng)
        for k, (port, whole) in enumerate(zip(bench.op.inputs, wholes, strict=True))
    ]
    outs = {device: local([own[device] for own in ins], device) for device in ins[0]}
    port = bench.op.outputs[0]
    bench.check(port, outs, result, bench.lay(port, bench.made(strategy), gradient=False))
    return ins


def part_named(bench: Bench, name: str) -> int:
    return next(j for j, part in enumerate(bench.op.parts) if part.name == name)


def activation(maker: GraphMaker, *shape: int) -> str:
    return maker.op("gelu", [maker.parameter(f"p{len(maker.ops)}", *shape)], shape)
