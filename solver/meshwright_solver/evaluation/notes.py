"""Notes on a plan: facts for the user that the numbers of the plan do not show."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import prod

import numpy as np

from meshwright.schema import Pin, Recompute, Request, Stage
from meshwright_costmodel.curves import rates_of
from meshwright_solver.common.identity_keys import IdentityKey, IdentityKeys
from meshwright_solver.evaluation.accounting.assignment import Codes
from meshwright_solver.problem.expert_dims import DISPATCH
from meshwright_solver.problem.low_precision import LEAST_DIM
from meshwright_solver.problem.problem import Problem
from meshwright_solver.problem.uneven import uneven_of
from meshwright_solver.strategies.mesh_models import Models
from meshwright_solver.strategies.op_model import OpModel

NAMED = 3  # chosen: names in a list of many

LAYER = re.compile(r"(?<=\.)\d+(?=\.)")  # layer number in a dotted name
UNEVEN_WOULD_DO = "sizes need not divide where the setup says `uneven: chunk` or `uneven: pad`"


Chosen = Sequence[tuple[int, Codes, int]]  # position of an op, its strategy, number of copies


def once(notes: Iterable[str]) -> tuple[str, ...]:
    """Notes without duplicates: notes that differ only in layer numbers are merged."""
    alike: dict[str, list[str]] = {}
    for note in notes:
        alike.setdefault(LAYER.sub("*", note), []).append(note)
    return tuple(
        group[0] + ("; other layers alike" if len(group) > 1 else "") for group in alike.values()
    )


def borrowed_curves(problem: Problem) -> list[str]:
    """Note on a device without measured curves, with the device whose curves replace them."""
    device = problem.topology.device
    curves = rates_of(problem.calibration, device).curves
    if curves is None or (curves.device == device.name and curves.relative is None):
        return []
    known = curves.relative or curves.device
    return [f"shapes and messages count as on {known}: none of {device.name} are known"]


def replaced_pins(pins: Sequence[Pin], effective: Iterable[Pin]) -> list[str]:
    """Notes on pins that later pins override on every op.

    Pins are compared by identity. effective: the pins that hold for at least one op.
    """
    key_of = IdentityKeys()
    held = set(key_of.each(effective))
    return [
        f"the pin {str(pin)!r} holds for no op: later pins match all that it does"
        for pin in pins
        if key_of(pin) not in held
    ]


def repeated_work(models: Models, chosen: Chosen) -> float:
    """Share of redundant arithmetic, which more devices execute than necessary.

    Every device counts with the valid part of its chunk. Padding and waiting for the longest chunk
    do not count as work.
    """
    useful = done = 0.0
    devices = models.mesh.device_count
    workers: dict[tuple[IdentityKey, Codes], float] = {}
    for position, codes, times in chosen:
        model = models.ops.model(position)
        key = (models.key_of(model), codes)
        if key not in workers:
            workers[key] = float(model.workers(np.array([codes]))[0])
        useful += times * model.flops
        done += times * model.flops * devices / workers[key]
    return max(0.0, 1 - useful / done) if done else 0.0


def idle_axes(models: Models, chosen: Chosen, why_not: str) -> list[str]:
    """Notes on mesh axes along which devices mostly execute the same work.

    why_not: the reason, as text.
    """
    notes = []
    shares: dict[tuple[IdentityKey, Codes], list[bool]] = {}
    useful = [0.0] * len(models.mesh.axes)
    flops = 0.0
    for position, codes, times in chosen:
        model = models.ops.model(position)
        key = (models.key_of(model), codes)
        if key not in shares:
            shares[key] = _shares(model, codes)
        flops += model.flops * times
        for a, is_shared in enumerate(shares[key]):
            useful[a] += model.flops * times if is_shared else 0.0
    for axis, shared_flops in zip(models.mesh.axes, useful, strict=True):
        # chosen: an axis gets a note if it shards less than half of the arithmetic
        if axis.size == 1 or shared_flops >= flops / 2:
            continue
        why = why_not
        if _divisible_flops(models, chosen, axis.size) < flops / 2:
            why = f"a batch, sequence or head count that divides by {axis.size} would use them"
            refused = models.problem.setup.uneven == "refuse"
            if refused and _divisible_flops(_uneven_models(models), chosen, axis.size) >= flops / 2:
                why += f"; {UNEVEN_WOULD_DO}"
        notes.append(
            f"axis {axis.name!r} of size {axis.size} shards {shared_flops / max(flops, 1):.0%} of "
            f"the arithmetic, the rest is repeated on its devices: {why}"
        )
    return notes


def _shares(model: OpModel, codes: Codes) -> list[bool]:
    """Per axis, whether the axis increases the number of devices that share the work of an op."""
    without = [(*codes[:a], model.idle, *codes[a + 1 :]) for a in range(len(codes))]
    with_all, *alone = model.workers(np.array([codes, *without])).tolist()
    return [with_all > worker_count for worker_count in alone]


def _uneven_models(models: Models) -> Models:
    """Models of the same ops with uneven sharding."""
    problem = models.problem
    uneven = uneven_of(problem.ops, problem.tensors, "chunk")
    return Models(replace(problem, uneven=uneven), models.values, models.mesh)


def _divisible_flops(models: Models, chosen: Chosen, ways: int) -> float:
    """Arithmetic of the ops that have a dim divisible by `ways`."""
    return sum(
        model.flops * times
        for model, times in ((models.ops.model(position), times) for position, _, times in chosen)
        if _divides(model, ways)
    )


def _divides(model: OpModel, ways: int) -> bool:
    lengths = model.spans or model.sizes
    return any(
        length % ways == 0 for length, may in zip(lengths, model.shardable, strict=True) if may
    )


def ineffective_options(request: Request) -> list[str]:
    """Notes on training options of a request that have no effect in inference."""
    if request.setup.phase == "training":
        return []
    wishes, constraints = [], request.constraints
    if constraints.optimizer_parallel is not None:
        wishes.append("optimizer_parallel: inference has no optimizer")
    if constraints.offload in ("optimizer", "auto"):
        rest = "; only embedding tables may lie on hosts" if constraints.offload == "auto" else ""
        wishes.append(f"offload {constraints.offload}: inference has no optimizer state{rest}")
    if constraints.sparse_gradients:
        wishes.append("sparse_gradients: inference has no gradients")
    if request.recompute.policy not in ("none", "auto"):
        wishes.append(f"recompute {request.recompute.policy}: inference has no backward pass")
    return wishes


def empty_recompute(request: Request, problem: Problem) -> list[str]:
    """Note on a recompute policy that recomputes nothing; for a pipeline its document has it."""
    if problem.remade or problem.stage_link is not None or not problem.training:
        return []  # inference is covered by `ineffective_options`
    return nothing_recomputed(request.recompute)


def nothing_recomputed(recompute: Recompute) -> list[str]:
    """The note on a stated policy, for a plan that recomputes nothing."""
    if recompute.policy in ("none", "auto") or recompute.blocks == 0:
        return []
    if recompute.policy == "stated":
        return [
            "recompute stated: nothing is done again; gradients need no result of the stated ops, "
            "or later segments need it too. State the ops that read it as well"
        ]
    return [
        f"recompute {recompute.policy}: nothing is done again; no repeated block has ops that this "
        "policy may repeat and whose results take memory"
    ]


def low_precision(models: Models) -> list[str]:
    """Note on the products that a precision recipe multiplies in 8 bits."""
    precision = models.problem.setup.precision
    if precision == "graph":
        return []
    if not models.values.low_precision.products:
        if models.problem.stage_link is not None:
            return []  # a stage without such products
        return [
            f"precision {precision} changes nothing: no product of 16-bit numbers has a weight of "
            f"at least {LEAST_DIM} x {LEAST_DIM}, but for the vocabulary head"
        ]
    return [
        f"products with large weights are priced in 8 bits ({precision}); the Meshwright runtimes "
        "multiply in the dtypes of the graph"
    ]


def busiest_experts(models: Models, chosen: Chosen) -> list[str]:
    """Note on the load of the busiest device under expert imbalance."""
    problem = models.problem
    imbalance = problem.setup.expert_imbalance
    if imbalance == 1:
        return []
    if not problem.loads.experts:
        if not any(op.op.kind == DISPATCH for op in problem.ops):
            return []  # a stage without experts
        return ["expert_imbalance changes nothing: experts have a fixed capacity in this graph"]
    most, ways = 1.0, 1
    for position, codes, _ in chosen:
        load = models.ops.model(position).load
        if load is not None:
            load_ratios = models.ops.model(position).load_of(np.array([codes]))
            most = max(most, float(np.max(load_ratios)))
            on = zip(codes, models.ops.axis_sizes, strict=True)
            ways = max(ways, prod(size for code, size in on if code in load.on))
    experts = max(problem.loads.experts.values())
    sentence = (
        f"the busiest of {experts} experts is taken to have {min(imbalance, experts):g} times "
    )
    sentence += "the mean of tokens"
    if ways == 1:
        return [f"{sentence}; no device waits for it, as experts are not cut over devices"]
    return [f"{sentence}, the busiest device, with experts cut {ways} ways, {most:.3g} times"]


def sparse_updates(stages: Sequence[Stage]) -> list[str]:
    """Note on parameters with sparse gradients."""
    names = [
        parameter.tensor
        for stage in stages
        for parameter in stage.parameters
        if parameter.sparse_gradient
    ]
    if not names:
        return []
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return [
        f"sparse gradients of {', '.join(names[:NAMED])}{more}: the optimizer updates rows that "
        "were looked up and no others (torch.optim.SparseAdam, MindSpore's LazyAdam)"
    ]


def microbatch_interleaving(problem: Problem) -> list[str]:
    """Note on microbatches that take turns."""
    copies = problem.copies
    if copies == 1:
        return []
    return [
        f"microbatches go in groups of {copies} that take turns: while one computes, what another "
        "sends moves beside it (docs/explanation/simulation.md)"
    ]
