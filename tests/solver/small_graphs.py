"""Small graphs, topologies and problems for the tests of the solver."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from meshwright.schema import Axis, Calibration, Graph, Mesh, MeshAxis, Setup, Topology
from meshwright_costmodel.calibrations import datasheet_calibration
from meshwright_solver.problem.problem import Problem, build_problem
from meshwright_solver.problem.values import find_values
from meshwright_solver.strategies.mesh_models import Models

Shape = Sequence[int | str]


class GraphMaker:
    """Write a graph op by op: every method names a tensor and gives the name back."""

    def __init__(self, dtype: str = "float32", **symbols: int) -> None:
        self.dtype = dtype
        self.symbols = symbols
        self.tensors: list[dict[str, Any]] = []
        self.ops: list[dict[str, Any]] = []

    def tensor(self, name: str, shape: Shape, role: str = "activation", **fields: Any) -> str:
        fields.setdefault("dtype", self.dtype)
        self.tensors.append({"name": name, "shape": list(shape), "role": role, **fields})
        return name

    def parameter(self, name: str, *shape: int | str, **fields: Any) -> str:
        return self.tensor(name, shape, "parameter", **fields)

    def input(self, name: str, *shape: int | str, **fields: Any) -> str:
        return self.tensor(name, shape, "input", **fields)

    def op(self, kind: str, inputs: Sequence[str], shape: Shape, name: str = "", **fields: Any):
        """An op with one result, named after the op."""
        name = name or f"{kind}.{len(self.ops)}"
        out = self.tensor(f"{name}:out", shape)
        self.ops.append(
            {"name": name, "kind": kind, "inputs": list(inputs), "outputs": [out], **fields}
        )
        return out

    def split(self, given: str, shapes: Sequence[Shape], dim: int, name: str) -> list[str]:
        outs = [self.tensor(f"{name}:{k}", shape) for k, shape in enumerate(shapes)]
        self.ops.append(
            {"name": name, "kind": "split", "inputs": [given], "outputs": outs,
             "attrs": {"dim": dim}}
        )  # fmt: skip
        return outs

    def document(self, *outputs: str, loss: str | None = None) -> dict[str, Any]:
        return {
            "symbols": dict(self.symbols),
            "tensors": self.tensors,
            "ops": self.ops,
            "outputs": list(outputs),
            **({"loss": loss} if loss else {}),
        }

    def graph(self, *outputs: str, loss: str | None = None) -> Graph:
        return Graph.from_dict(self.document(*outputs, loss=loss))


def topology(
    *sizes: int, memory_bytes: int = 1 << 34, eight_bit: bool = False, **rates: float
) -> Topology:
    """Levels node, gpu, ... (the last ones named so), each ten times as fast as the one above.

    eight_bit: whether devices multiply in 8 bits too.
    """
    names = ["pod", "rack", "node", "gpu"][4 - len(sizes) :]
    flops = rates.get("flops_per_s", 1e13)
    slowest = rates.get("bytes_per_s", 1e10)
    latency_ns = int(rates.get("latency_ns", 1000))
    return Topology.from_dict(
        {
            "device": {
                "name": "toy",
                "memory_bytes": memory_bytes,
                "memory_bytes_per_s": rates.get("memory_bytes_per_s", 1e12),
                "flops_per_s": {
                    "float32": flops,
                    "bfloat16": 4 * flops,
                    **({"float8_e4m3": 8 * flops} if eight_bit else {}),
                },
            },
            "levels": [
                {
                    "name": name,
                    "size": size,
                    "link": {
                        "kind": "wire", "bytes_per_s": slowest * 10**k,
                        "latency_ns": latency_ns // (k + 1),
                    },
                }
                for k, (name, size) in enumerate(zip(names, sizes, strict=True))
            ],
        }
    )  # fmt: skip


def toy_calibration() -> Calibration:
    """What toys are priced with, whatever the planner assumes: numbers worked by hand are of it.

    One share of a data sheet for all shapes, so that a result is a line of arithmetic; the curves
    of a real device have starts of half a millisecond, which outlast a toy's whole step.
    """
    return datasheet_calibration()


def problem(graph: Graph, devices: Topology, setup: Setup | None = None, **more: Any) -> Problem:
    return build_problem(graph, devices, setup or Setup(), toy_calibration(), **more)


def one_level_mesh(*sizes: int) -> tuple[Topology, Mesh]:
    """A topology of one level and a mesh of these axes in it: a0, a1, ..."""
    total = 1
    for size in sizes:
        total *= size
    axes = tuple(MeshAxis(name=Axis(f"a{k}"), size=s, level="gpu") for k, s in enumerate(sizes))
    return topology(total), Mesh(axes=axes)


def models(graph: Graph, mesh_sizes: Sequence[int], setup: Setup | None = None) -> Models:
    devices, mesh = one_level_mesh(*mesh_sizes)
    built = problem(graph, devices, setup)
    return Models(built, find_values(built), mesh)


def state(found: Models, tensor: str, placed: Mapping[str, int | str]) -> tuple[int, ...]:
    """A state by name of axis: a slot of the value, or R, P, V; R where nothing is said."""
    value = found.values.value_of[tensor]
    n = len(value.slots)
    letters = {"R": n, "P": n + 1, "V": n + 2}
    codes = []
    for axis in found.mesh.names:
        place = placed.get(axis, "R")
        codes.append(letters[place] if isinstance(place, str) else value.slots.index(place))
    return tuple(codes)
