"""From what MindSpore answered to `data/mindspore_strategies.json`: its operators as ops of ours.

A line is what a script that runs MindSpore's searches prints. For the four models its strategies
are by operator name (`Default/blocks-CellList/0-Block/GeLU-op0`); within a cell, operators of one
kind are listed as they run, and so they are matched. For a stored graph, which was rebuilt op by op
of MindSpore's operators, they are by op already (`by_op`): a linear layer or a loss runs on rows,
whose cut is spread over the dims that make them up.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

from bench.mindspore_models import MODELS, example

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
# operators that say how an op of several is cut
_DECISIVE = {
    "linear": "MatMul",
    "attention": "FlashAttentionScore",
    "cross_entropy": "SoftmaxCrossEntropyWithLogits",
    "rotary": "Add",
    "conv": "Conv2D",
}
_ON_ROWS = ("linear", "cross_entropy")

Strategies = dict[str, list[list[int]]]


def document(lines: Iterable[str], about: Mapping[str, Any]) -> dict[str, Any]:
    """The data file: one case for every distinct answer, with all searches that gave it."""
    cases: dict[str, dict[str, Any]] = {}
    for line in lines:
        row = json.loads(line)
        case, found_by = _of_graph(row) if "by_op" in row else _of_model(row)
        own = cases.setdefault(json.dumps(case), {**case, "found_by": []})
        if found_by not in own["found_by"]:
            own["found_by"].append(found_by)
    return {**about, "cases": list(cases.values())}


def text(found: Mapping[str, Any]) -> str:
    """The document with every case on one line."""
    cases = ",\n".join(json.dumps(case) for case in found["cases"])
    return json.dumps({**found, "cases": []}, indent=1).replace("[]", f"[\n{cases}\n]") + "\n"


def _of_model(row: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """One of the four models; options that the script does not print stand under `options`."""
    masks = "one" if row["dataset"] == "full" else "each"
    given = {**row, **row.get("options", {}), "sequence": row["seq"], "masks": masks}
    options = {name: given[name] for name in _OPTIONS[row["model"]]}
    twin = MODELS[row["model"]](**options)
    places: dict[tuple[str, str], list[str]] = {}
    for op in twin.graph.ops:
        places.setdefault((op.module, twin.operators[op.name]), []).append(op.name)
    strategies: Strategies = {}
    for name, cuts in row["strategies"].items():
        *cells, operator = [own.partition("-")[0] for own in name.split("/")[1:]]
        if operator != "_VirtualDataset":
            cell = ".".join(own for own in cells if own not in _TRAINED)
            strategies[places[cell, operator].pop(0)] = cuts
    batch = "whole" if row["dataset"] == "full" else "cut"
    case = {
        "model": row["model"],
        "options": options,
        "devices": row["device_num"],
        "strategies": compact(strategies),
    }
    seeds = f" from seeds of {row['seed_mp']}" if row.get("seed_mp") else ""
    return case, f"{_SEARCHES[row['search_mode']]}{seeds}, {batch} batch"


def _of_graph(row: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """A stored graph. Operators of an op beside the one that decides cut the same things."""
    model = row["graph"].partition(".")[0]
    graph = example(model, row["set"])
    shapes = graph.instantiate({})
    strategies: Strategies = {}
    for op in graph.ops:
        given = row["by_op"].get(op.name)
        if not given:
            continue
        wanted = _DECISIVE.get(op.kind, given[-1][0])
        cuts = [own for operator, own in given if operator == wanted][-1]
        if op.kind in _ON_ROWS:
            rows, last = cuts[0]
            lead = _spread(rows, shapes[op.inputs[0]][:-1])
            cuts = [[*lead, last], cuts[1] if op.kind == "linear" else lead]
        if op.kind == "rotary":
            cuts = cuts[:1]
        strategies[op.name] = cuts
    case = {
        "model": model,
        "options": row["set"],
        "devices": row["devices"],
        "strategies": compact(strategies),
    }
    return case, f"{_SEARCHES[row['search']]}, whole batch"


def _spread(count: int, sizes: Sequence[int]) -> list[int]:
    """A cut of rows over the dims they are made of, outer ones first."""
    found = []
    for size in sizes:
        taken = size if count % size == 0 else count
        found.append(taken)
        count //= taken
    return found


def compact(strategies: Strategies) -> dict[str, str]:
    """Ops of neighbouring numbers that are cut alike stand together: `blocks.0-11.ln1`."""
    rows: dict[tuple[str, str, str], list[int]] = {}
    for name, cuts in strategies.items():
        written = " ".join(f"({','.join(map(str, own))})" for own in cuts)
        found = re.fullmatch(r"(.*?\.)(\d+)(\..*)", name)
        before, number, behind = found.groups() if found else (name, "0", "")
        rows.setdefault((before, behind, written), []).append(int(number))
    done: dict[str, str] = {}
    for (before, behind, written), numbers in rows.items():
        if not behind:
            done[before] = written
            continue
        pairs = enumerate(sorted(numbers))
        for _, group in groupby(pairs, key=lambda pair: pair[1] - pair[0]):
            alike = [number for _, number in group]
            span = f"{alike[0]}-{alike[-1]}" if len(alike) > 1 else f"{alike[0]}"
            done[f"{before}{span}{behind}"] = written
    return done
