"""Strategies that MindSpore's own searches gave, and what they say of our ops.

`data/mindspore_strategies.json` has one case for every distinct answer. A strategy is written as
MindSpore writes it, `(8,1) (1,1)`: into how many parts each dim of each input is cut. Operators
stand under the cell that runs them, `blocks.0-11` for a row of equal ones, in the order in which
MindSpore lists them: that in which they run.

    cuts  ->  ways: part of an op -> into how many it is cut, outer parts first
          ->  by level: the same for every level of the topology. MindSpore numbers devices along
              an op's factors, the first of them slowest, and repeats work on neighbours.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from bench.mindspore_models import MODELS, Twin
from meshwright.schema import ConversionError
from solver.op_info import OpInfo, Port
from solver.problem import Problem

DATA = Path(__file__).parent / "data" / "mindspore_strategies.json"

Cuts = tuple[tuple[int, ...], ...]
Ways = dict[int, int]
# operators of which MindSpore gives none: reshapes take their neighbours', casts their readers'
SILENT = ("Reshape", "Cast")
_OPTIONS = {
    "mlp": ("hidden", "batch", "classes"),
    "gpt": ("layers", "hidden", "heads", "batch", "sequence", "vocab", "masks"),
    "reid": ("batch", "classes"),
    "widedeep": ("batch", "vocab"),
}
_SEARCHES = {
    "dynamic_programming": "dynamic",
    "recursive_programming": "recursive",
    "sharding_propagation": "propagation",
}
_TRAINED = ("net", "network")  # the cell that holds the model while it is trained


@dataclass(frozen=True, slots=True)
class Recorded:
    """One answer of MindSpore's. found_by: the searches that gave it, e.g. `recursive, whole`."""

    model: str
    options: Mapping[str, int | str]
    devices: int
    found_by: tuple[str, ...]
    strategies: Mapping[str, Mapping[str, Sequence[str]]]

    @property
    def name(self) -> str:
        if self.model != "gpt":
            return self.model
        own = self.options
        return f"gpt {own['layers']} x {own['hidden']}, batch {own['batch']}"

    def twin(self) -> Twin:
        return MODELS[self.model](**self.options)

    def cuts(self, twin: Twin) -> tuple[dict[str, Cuts], list[str]]:
        """Name of op -> its cuts, and what has no counterpart, in words."""
        places: dict[tuple[str, str], list[str]] = {}
        for op in twin.graph.ops:
            places.setdefault((op.module, twin.operators[op.name]), []).append(op.name)
        found: dict[str, Cuts] = {}
        wrong: list[str] = []
        for cells, operators in self.strategies.items():
            for cell in _cells(cells):
                for operator, written in operators.items():
                    names = places.pop((cell, operator), [])
                    if len(names) != len(written):
                        wrong.append(
                            f"{cell}/{operator}: {len(written)} of MindSpore's, {len(names)} here"
                        )
                        continue
                    found.update(zip(names, map(parse_cuts, written), strict=True))
        wrong += [
            f"{cell}/{operator}: no strategy of MindSpore's"
            for cell, operator in places
            if operator not in SILENT
        ]
        return found, wrong


def recorded() -> list[Recorded]:
    """The cases of the data file."""
    document = json.loads(DATA.read_text())
    return [Recorded(**{**case, "found_by": tuple(case["found_by"])}) for case in document["cases"]]


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
    problem: Problem, op: OpInfo, port: Port, dim: int, count: int
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


def document(lines: Iterable[str], about: Mapping[str, Any]) -> dict[str, Any]:
    """The data file, from the JSON lines that the script which runs MindSpore prints."""
    cases: dict[str, dict[str, Any]] = {}
    for line in lines:
        row = json.loads(line)
        if not row.get("strategies"):
            continue
        case = {
            "model": row["model"],
            "options": _options(row),
            "devices": row["device_num"],
            "strategies": _compact(row["strategies"]),
        }
        batch = "whole" if row["dataset"] == "full" else "cut"
        own = cases.setdefault(json.dumps(case), {**case, "found_by": []})
        own["found_by"].append(f"{_SEARCHES[row['search_mode']]}, {batch} batch")
    return {**about, "cases": list(cases.values())}


def _options(row: Mapping[str, Any]) -> dict[str, int | str]:
    """The options of our builder; those that the script does not print stand under `options`."""
    masks = "one" if row["dataset"] == "full" else "each"
    given = {**row, **row.get("options", {}), "sequence": row["seq"], "masks": masks}
    return {name: given[name] for name in _OPTIONS[row["model"]]}


def _compact(strategies: Mapping[str, Sequence[Sequence[int]]]) -> dict[str, dict[str, list[str]]]:
    by_cell: dict[str, dict[str, list[str]]] = {}
    for name, cuts in strategies.items():
        *cells, operator = [own.partition("-")[0] for own in name.split("/")[1:]]
        if operator == "_VirtualDataset":
            continue
        cell = ".".join(own for own in cells if own not in _TRAINED)
        text = " ".join(f"({','.join(map(str, own))})" for own in cuts)
        by_cell.setdefault(cell, {}).setdefault(operator, []).append(text)
    return dict(_rows(by_cell))


def _rows(
    by_cell: Mapping[str, dict[str, list[str]]],
) -> Iterator[tuple[str, dict[str, list[str]]]]:
    """Cells that are alike in one row of blocks stand together."""
    block = re.compile(r"blocks\.(\d+)(.*)")
    rest: dict[str, list[int]] = {}
    for cell, own in by_cell.items():
        if (found := block.fullmatch(cell)) is None:
            yield cell, own
        else:
            rest.setdefault(found[2], []).append(int(found[1]))
    for behind, numbers in rest.items():

        def content(k: int, behind: str = behind) -> dict[str, list[str]]:
            return by_cell[f"blocks.{k}{behind}"]

        for own, group in groupby(sorted(numbers), key=content):
            alike = list(group)
            span = f"{alike[0]}-{alike[-1]}" if len(alike) > 1 else f"{alike[0]}"
            yield f"blocks.{span}{behind}", own


def _cells(written: str) -> list[str]:
    """`blocks.2-4.q` stands for three cells."""
    found = re.fullmatch(r"blocks\.(\d+)-(\d+)(.*)", written)
    if found is None:
        return [written]
    return [f"blocks.{k}{found[3]}" for k in range(int(found[1]), int(found[2]) + 1)]
