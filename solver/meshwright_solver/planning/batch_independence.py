"""Batch independence: whether half batches with summed gradients equal the batch.

The batch propagates from dims whose size has the symbol `batch`
(`meshwright_solver.constraints.batch_dims`). Samples depend on each other in an op that

- reduces its batch to statistics that it uses again (batch norm),
- takes the batch as a whole (a sort, an unknown kind), or
- is not linear in sums over the batch (a product of two means).
"""

from __future__ import annotations

from meshwright.schema import SetupError
from meshwright_solver.constraints.batch_dims import Parts, batch_parts
from meshwright_solver.problem.op_info import OpInfo
from meshwright_solver.problem.problem import Problem


def check_split(problem: Problem) -> None:
    """Raise SetupError with the name of the op for which half batches give other gradients.

    problem: of the whole graph.
    """
    summed: set[str] = set()
    of_samples = {
        name for name, info in problem.tensors.items() if info.tensor.role in ("input", "label")
    }
    for op, batch in zip(problem.ops, batch_parts(problem), strict=True):
        if of_samples.isdisjoint(op.op.inputs) and summed.isdisjoint(op.op.inputs):
            continue
        why = _obstacle(op, batch, summed)
        if why is not None:
            raise SetupError(
                f"op {op.name!r} ({op.op.kind}) {why}, so that halves of a batch make other "
                "gradients than the batch. Use copies 1",
                pointer="/copies",
            )
        for port in op.outputs:
            of_samples.add(port.tensor)
            has_batch = any(part in port.slot_of for part in batch)
            if problem.tensors[port.tensor].has_gradient and (
                (batch and not has_batch) or not summed.isdisjoint(op.op.inputs)
            ):
                summed.add(port.tensor)


def _obstacle(op: OpInfo, batch: Parts, summed: set[str]) -> str | None:
    if op.known is None:
        return "is of a kind that is not known"
    if any(op.parts[part].reused for part in batch):
        return "uses statistics over its batch"
    parsed = op.known.rule.parsed
    if any(op.parts[part].factor in parsed.unsharded for part in batch):
        return "takes its batch as a whole"
    of_sums = {k for k, port in enumerate(op.inputs) if port.tensor in summed}
    linear = op.known.op_class == "view" or any(
        of_sums <= set(group) for group in op.known.rule.linear
    )
    if of_sums and not linear:
        return "makes something else of sums over the batch"
    return None
