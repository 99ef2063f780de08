"""Plans for eight Ascend devices of graphs captured from MindSpore, and what they move."""

from __future__ import annotations

import gzip
import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from meshwright.convert import MindSporeNetwork, network_of
from meshwright.schema import (
    Constraints,
    Degrees,
    Graph,
    OptimizerParallel,
    Pin,
    Pipeline,
    Plan,
    Setup,
)
from meshwright_costmodel.calibrations import datasheet_calibration
from meshwright_costmodel.presets import preset
from meshwright_solver.planning.planner import plan as find_plan
from tests.one_stage import one_stage_request

DATA = Path(__file__).parents[1] / "data" / "mindspore"
# gradients in float16, as MindSpore has them of parameters in float16
SETUP = Setup(allow_all_to_all=False, gradient_dtype="float16")
CALIBRATION = datasheet_calibration()
MODELS = ("mlp", "gpt", "reid", "widedeep")

Collective = tuple[str, int, int]  # kind, size of the group, bytes of the whole on one device


@dataclass(frozen=True, slots=True)
class Case:
    """A model and what is asked of its plan."""

    model: str
    wishes: Callable[[], Mapping[str, object]]


def _zero(level: int) -> Mapping[str, object]:
    return {"constraints": Constraints(optimizer_parallel=OptimizerParallel(level=level))}


def _stated(*pins: Pin) -> Mapping[str, object]:
    return {"degrees": Degrees(dp=2, tp=4), "pipeline": Pipeline(ranks=1), "pins": pins}


def _pin(op: str, **factors: str) -> Pin:
    return Pin(op=op, strategy={factor: (axis,) for factor, axis in factors.items()})


CASES: Mapping[str, Case] = {
    "mlp": Case("mlp", lambda: _zero(0)),
    # first layer whole on dp, columns on tp: only Layouts can say that
    "mlp-layouts": Case(
        "mlp",
        lambda: _stated(
            _pin("fc1.matmul", n="tp"), _pin("fc1.add", d1="tp"), _pin("act", d1="tp"),
            _pin("fc2.matmul", m="dp", k="tp"),
        ),
    ),
    "gpt": Case("gpt", lambda: _zero(0)),
    "gpt-dp2-tp4": Case("gpt", _stated),
    "reid": Case("reid", lambda: _zero(0)),
    "reid-level2": Case("reid", lambda: _zero(2)),
    "widedeep": Case("widedeep", lambda: _zero(0)),
}  # fmt: skip


@cache
def graph_of(model: str) -> Graph:
    """The graph as MindSpore was captured, from the data folder."""
    return Graph.from_json(gzip.decompress((DATA / f"{model}.graph.json.gz").read_bytes()))


@cache
def planned(name: str) -> Plan:
    case = CASES[name]
    request = one_stage_request(
        graph=graph_of(case.model),
        topology=preset("910b-1x8"),
        setup=SETUP,
        calibration=CALIBRATION,
        **case.wishes(),
    )
    found = find_plan(request).plan
    assert found is not None
    return found


@cache
def network(name: str) -> MindSporeNetwork:
    return network_of(planned(name), graph_of(CASES[name].model), SETUP)


def forward_collectives(name: str) -> tuple[Counter[Collective], Counter[str]]:
    """What the forward pass of a plan moves: as the plan says, and by kind what MindSpore does
    otherwise, or an op does inside (of which the plan prices more than MindSpore sends).
    """
    (stage,) = planned(name).stages
    own = network(name).otherwise
    apart = {item.tensor for item in own}
    sizes = {axis.name: axis.size for axis in stage.mesh.axes}
    exact: Counter[Collective] = Counter()
    for moved in stage.redistributions:
        if moved.tensor not in apart:
            # values that the update leaves in shards MindSpore gathers before it uses them
            gathered = moved.per_step if moved.traffic == "parameter" else ()
            for step in (*moved.forward, *gathered):
                if step.kind not in ("slice", "mask"):
                    ways = math.prod(sizes[axis] for axis in step.axes)
                    exact[step.kind, ways, step.payload_bytes] += 1
    inside = Counter(
        moves.kind
        for op in stage.ops
        for moves in op.own_steps
        for _ in range(moves.times)
        if moves.direction == "forward"
    )
    return exact, inside + Counter(kind for item in own for kind in item.done)


def parameter_collectives(name: str) -> Counter[Collective]:
    """What a step of a plan moves of parameters and their gradients."""
    (stage,) = planned(name).stages
    sizes = {axis.name: axis.size for axis in stage.mesh.axes}
    return Counter(
        (step.kind, math.prod(sizes[axis] for axis in step.axes), step.payload_bytes)
        for moved in stage.redistributions
        if moved.traffic != "activation"
        for step in (*moved.forward, *moved.backward, *moved.per_step)
        if step.kind not in ("slice", "mask")
    )


def row(name: str, found: Counter[str]) -> str:
    """A row of the table in docs/how-to/mindspore.md. found: compiled collectives."""
    exact, kinds = forward_collectives(name)
    exported = network(name)
    layouts = sum(own.in_layout is not None for own in exported.primitives.values())
    cells = (
        name,
        str(len(exported.operators)),
        str(layouts),
        _counted(Counter(kind for kind, _, _ in exact.elements())),
        _counted(kinds),
        _counted(found),
    )
    return f"| {' | '.join(cells)} |"


def _counted(kinds: Counter[str]) -> str:
    said = [f"{count} {kind.replace('_', '-')}" for kind, count in sorted(kinds.items())]
    return ", ".join(said) or "none"
