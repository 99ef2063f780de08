"""Strategies that MindSpore's own searches gave, and what they say of our ops.

`data/mindspore_strategies.json` has one case for every distinct answer: op -> its cuts, written as
MindSpore writes them, `(8,1) (1,1)`: into how many parts each dim of each input is cut.
`blocks.0-11.ln1` stands for twelve ops.

    cuts  ->  ways: part of an op -> into how many it is cut, outer parts first
          ->  by level: the same for every level of the topology. MindSpore numbers devices along
              an op's factors, the first of them slowest, and repeats work on neighbours.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.mindspore_models import MODELS, example
from meshwright.schema import ConversionError, Graph
from meshwright_solver.problem.op_info import OpInfo, OpPort
from meshwright_solver.problem.problem import Problem

DATA = Path(__file__).parent / "data" / "mindspore_strategies.json"

Cuts = tuple[tuple[int, ...], ...]
Ways = dict[int, int]


@dataclass(frozen=True, slots=True)
class Recorded:
    """One answer of MindSpore's, for one of its four models or for a stored graph.

    options: of the model's builder, or symbols of the graph. found_by: the searches that gave it,
    and whether the batch came to every device whole or cut.
    """

    model: str
    options: Mapping[str, int | str]
    devices: int
    strategies: Mapping[str, str]
    found_by: tuple[str, ...]

    @property
    def name(self) -> str:
        if self.model != "gpt":
            return self.model
        own = self.options
        return f"gpt {own['layers']} x {own['hidden']}, batch {own['batch']}"

    def graph(self) -> Graph:
        if self.model in MODELS:
            return MODELS[self.model](**self.options).graph
        return example(self.model, {name: int(size) for name, size in self.options.items()})

    def cuts(self) -> dict[str, Cuts]:
        """Name of op -> its cuts."""
        return {
            name: parse_cuts(written)
            for names, written in self.strategies.items()
            for name in spelt_out(names)
        }


def recorded() -> list[Recorded]:
    """The cases of the data file."""
    document = json.loads(DATA.read_text())
    return [Recorded(**{**case, "found_by": tuple(case["found_by"])}) for case in document["cases"]]


def spelt_out(names: str) -> list[str]:
    """`blocks.2-4.q` stands for three ops."""
    found = re.fullmatch(r"(.*?\.)(\d+)-(\d+)(\..*)", names)
    if found is None:
        return [names]
    return [f"{found[1]}{k}{found[4]}" for k in range(int(found[2]), int(found[3]) + 1)]


def parse_cuts(text: str) -> Cuts:
    """`(8,1) (1,1) ()` as tuples."""
    return tuple(
        tuple(int(count) for count in group.split(",") if count)
        for group in re.findall(r"\(([\d,]*)\)", text)
    )


def ways_of(problem: Problem, op: OpInfo, cuts: Cuts) -> Ways:
    """Into how many every part of an op is cut, parts in MindSpore's order.

    Raises ConversionError for cuts that contradict each other, or that no equal parts make up.
    """
    ports = op.outputs if op.op.kind == "one_hot" else op.inputs  # OneHot: those of its output
    ways: Ways = {}
    for port, counts in zip(ports, cuts, strict=False):
        shape = problem.tensors[port.tensor].shape
        if counts and len(counts) != len(shape):
            raise ConversionError(f"op {op.name!r}: cuts {counts} of the shape {list(shape)}")
        for dim, count in enumerate(counts):
            for part, own in _spread(problem, op, port, dim, count):
                if ways.setdefault(part, own) != own:
                    raise ConversionError(
                        f"op {op.name!r}: {op.parts[part].name!r} is cut in {own} and {ways[part]}"
                    )
    return ways


def by_level(op: OpInfo, ways: Ways, levels: Sequence[int]) -> list[Ways]:
    """The ways on each level, slowest first, when devices are numbered along the parts.

    Raises ConversionError where a part neither divides by what a level has left nor fits into it.
    """
    found: list[Ways] = [{} for _ in levels]
    level, left = 0, levels[0]
    for part, count in ways.items():
        while count > 1:
            if left == 1:
                level += 1
                left = levels[level]
            taken = left if count % left == 0 else count
            if left % taken:
                raise ConversionError(
                    f"op {op.name!r}: {count} of {op.parts[part].name!r} do not meet {left} devices"
                )
            found[level][part] = found[level].get(part, 1) * taken
            left //= taken
            count //= taken
    return found


def _spread(
    problem: Problem, op: OpInfo, port: OpPort, dim: int, count: int
) -> Iterator[tuple[int, int]]:
    """A cut of a dim over its parts: what is outer is used up before what is inner."""
    slots = problem.tensors[port.tensor].slots
    part_of = {slot: part for part, slot in port.slot_of.items()}
    for place, slot in enumerate(slots):
        if slot.dim != dim:
            continue
        taken = slot.size if count % slot.size == 0 else count
        if slot.size % taken or (taken > 1 and place not in part_of):
            break
        if place in part_of:
            yield part_of[place], taken
        count //= taken
    if count > 1:
        raise ConversionError(
            f"op {op.name!r}: dim {dim} of {port.tensor!r} is not cut into {count} equal parts here"
        )
