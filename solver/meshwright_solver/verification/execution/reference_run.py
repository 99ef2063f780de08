"""The unsharded run: what every plan has to equal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from meshwright_solver.problem.op_info import OpInfo
from meshwright_solver.problem.problem import Problem
from meshwright_solver.rules.op_knowledge import RECEIVE
from meshwright_solver.verification.execution.kernels import KERNELS, KernelCall
from meshwright_solver.verification.execution.shards import Array


@dataclass(slots=True)
class ReferenceRun:
    """Whole tensors of an unsharded run: values and gradients by tensor name."""

    values: dict[str, Array] = field(default_factory=dict)
    gradients: dict[str, Array] = field(default_factory=dict)


def seeds_of(problem: Problem) -> dict[str, Array]:
    """The gradient with which a backward pass begins: that of the loss, one; none in inference,
    nor where nothing that is trained leads to the loss."""
    loss = problem.graph.loss
    if loss is None or not problem.training or not problem.tensors[loss].has_gradient:
        return {}
    return {loss: np.ones(problem.tensors[loss].shape)}


def run_whole(
    problem: Problem, sources: Mapping[str, Array], seeds: Mapping[str, Array] | None = None
) -> ReferenceRun:
    """The unsharded run from the values of inputs, labels, parameters, constants, and of what
    another stage sends. seeds: gradients that come from outside; that of the loss by default."""
    run = ReferenceRun(dict(sources), dict(seeds_of(problem) if seeds is None else seeds))
    outputs: dict[int, tuple[Array, ...]] = {}
    for position, op in enumerate(problem.ops):
        if op.op.kind == RECEIVE:
            continue
        call = call_of(problem, op, [run.values[port.tensor] for port in op.inputs])
        outputs[position] = KERNELS[op.op.kind].forward(call)
        for port, made in zip(op.outputs, outputs[position], strict=True):
            run.values[port.tensor] = made
    for position in range(len(problem.ops) - 1, -1, -1):
        op = problem.ops[position]
        sent = tuple(run.gradients.get(port.tensor) for port in op.outputs)
        if op.op.kind == RECEIVE or all(own is None for own in sent):
            continue
        call = call_of(problem, op, [run.values[port.tensor] for port in op.inputs])
        received = KERNELS[op.op.kind].backward(call, outputs[position], sent)
        for port, own in zip(op.inputs, received, strict=True):
            if own is not None and problem.tensors[port.tensor].has_gradient:
                before = run.gradients.get(port.tensor)
                run.gradients[port.tensor] = own if before is None else before + own
    return run


def call_of(
    problem: Problem, op: OpInfo, inputs: Sequence[Array], denominator: float | None = None
) -> KernelCall:
    """An op's kernel call; denominator: see Call."""
    return KernelCall(
        kind=op.op.kind,
        attrs=op.op.attrs,
        inputs=tuple(inputs),
        output_shapes=tuple(problem.tensors[port.tensor].shape for port in op.outputs),
        denominator=denominator,
    )
