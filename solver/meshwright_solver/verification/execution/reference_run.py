"""The unsharded reference run, which every plan must equal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from meshwright_solver.problem.op_info import OpInfo
from meshwright_solver.problem.problem import Problem
from meshwright_solver.problem.sized_graph import FLOATS
from meshwright_solver.rules.op_knowledge import RECEIVE
from meshwright_solver.verification.execution.kernels import (
    KERNELS,
    KernelCall,
    OpaqueSignature,
    kernel_of,
)
from meshwright_solver.verification.execution.shards import Array


@dataclass(slots=True)
class ReferenceRun:
    """Whole tensors of an unsharded run: values and gradients by tensor name."""

    values: dict[str, Array] = field(default_factory=dict)
    gradients: dict[str, Array] = field(default_factory=dict)


def seeds_of(problem: Problem) -> dict[str, Array]:
    """The seed gradient of the backward pass: ones for the loss.

    Empty in inference, and where no trained parameter leads to the loss.
    """
    loss = problem.graph.loss
    if loss is None or not problem.training or not problem.tensors[loss].has_gradient:
        return {}
    return {loss: np.ones(problem.tensors[loss].shape)}


def run_whole(
    problem: Problem, sources: Mapping[str, Array], seeds: Mapping[str, Array] | None = None
) -> ReferenceRun:
    """The unsharded run from the values of all tensors that no op of the stage makes.

    sources: inputs, labels, parameters, constants, and the values that another stage sends. seeds:
    gradients from outside; that of the loss by default.
    """
    run = ReferenceRun(dict(sources), dict(seeds_of(problem) if seeds is None else seeds))
    outputs: dict[int, tuple[Array, ...]] = {}
    for position, op in enumerate(problem.ops):
        if op.op.kind == RECEIVE:
            continue
        call = call_of(problem, op, [run.values[port.tensor] for port in op.inputs])
        outputs[position] = kernel_of(op.op.kind).forward(call)
        for port, result in zip(op.outputs, outputs[position], strict=True):
            run.values[port.tensor] = result
    for position in range(len(problem.ops) - 1, -1, -1):
        op = problem.ops[position]
        sent = tuple(run.gradients.get(port.tensor) for port in op.outputs)
        if op.op.kind == RECEIVE or all(gradient is None for gradient in sent):
            continue
        call = call_of(problem, op, [run.values[port.tensor] for port in op.inputs])
        received = kernel_of(op.op.kind).backward(call, outputs[position], sent)
        for port, gradient in zip(op.inputs, received, strict=True):
            if gradient is not None and problem.tensors[port.tensor].has_gradient:
                before = run.gradients.get(port.tensor)
                run.gradients[port.tensor] = gradient if before is None else before + gradient
    return run


def call_of(
    problem: Problem, op: OpInfo, inputs: Sequence[Array], denominator: float | None = None
) -> KernelCall:
    """An op's kernel call; denominator: see KernelCall."""
    return KernelCall(
        kind=op.op.kind,
        attrs=op.op.attrs,
        inputs=tuple(inputs),
        output_shapes=tuple(problem.tensors[port.tensor].shape for port in op.outputs),
        denominator=denominator,
        signature=None if op.op.kind in KERNELS else _signature(problem, op, inputs),
    )


def _signature(problem: Problem, op: OpInfo, inputs: Sequence[Array]) -> OpaqueSignature:
    outputs = [problem.tensors[port.tensor] for port in op.outputs]
    dtypes = tuple(_array_dtype(info.tensor.dtype) for info in outputs)
    assert op.known is not None, f"op {op.name!r} has no kernel and no rule"
    rule = op.known.rule
    sizes = rule.bind([array.shape for array in inputs], [info.shape for info in outputs])
    return OpaqueSignature(rule.parsed, sizes, dtypes)


def _array_dtype(dtype: str) -> Literal["float64", "int64", "bool"]:
    if dtype in FLOATS:
        return "float64"
    return "bool" if dtype == "bool" else "int64"
