"""Rules of factorizations, solvers, distances and products of two tensors along chosen dims."""

from __future__ import annotations

from meshwright_solver.rules.op_knowledge import Builder, Known, RuleInputs, known, names
from meshwright_solver.rules.pointwise import broadcast_term

_BILINEAR = ((0,), (1,))


def cholesky(ports: RuleInputs) -> Known:
    """Every matrix is independent."""
    lead = " ".join(names("b", len(ports.inputs[0]) - 2))
    return known(
        f"{lead} n! m! -> {lead} n! m!",
        "memory",
        saves_inputs=(),
        saves_outputs=(0,),
        flops=_cubic(ports.inputs[0], 3),
    )


def _cubic(shape: tuple[int, ...], divisor: int) -> int:
    count = 1
    for size in shape:
        count *= size
    return count * shape[-1] // divisor


def solve_triangular(ports: RuleInputs) -> Known:
    """Every matrix and every column of the right-hand sides is independent."""
    rank = len(ports.outputs[0])
    lead = names("b", rank - 2)
    out = ports.outputs[0][: rank - 2]
    left = broadcast_term(ports.inputs[0][:-2], out, lead)
    right = broadcast_term(ports.inputs[1][:-2], out, lead)
    return known(
        f"{left} n! m!, {right} n! k -> {' '.join(lead)} n! k",
        "memory",
        linear=((1,),),
        saves_inputs=(0,),
        saves_outputs=(0,),
        flops=_cubic(ports.outputs[0], 1) // max(1, ports.outputs[0][-1]) * ports.outputs[0][-2],
    )


def least_squares(ports: RuleInputs) -> Known:
    """Every system is independent; ranks and singular values may be outputs, of no column."""
    lead = " ".join(names("b", len(ports.inputs[0]) - 2))
    alone = len(ports.outputs) == 1
    columns = "k" if alone else "k!"
    rest = []
    for i, shape in enumerate(ports.outputs[1:], 1):
        more = len(shape) - (len(ports.inputs[0]) - 2)
        rest.append(f"{lead} {' '.join(f'r{i}_{d}!' for d in range(more))}")
    return known(
        ", ".join([f"{lead} m! n!, {lead} m! {columns} -> {lead} n! {columns}", *rest]),
        "memory",
        linear=((1,),) if alone else (),
        flops=2 * _cubic(ports.inputs[0], 1),
    )


def cdist(ports: RuleInputs) -> Known:
    """Distances of all rows to all rows; the rows stay whole where a root follows the sum."""
    rank = len(ports.outputs[0])
    lead = names("b", rank - 2)
    out = ports.outputs[0][: rank - 2]
    left = broadcast_term(ports.inputs[0][:-2], out, lead)
    right = broadcast_term(ports.inputs[1][:-2], out, lead)
    k = "k" if ports.attrs.get("p", 2.0) in (0, 1) else "k!"
    return known(
        f"{left} m {k}, {right} n {k} -> {' '.join(lead)} m n", "matmul", saves_outputs=(0,)
    )


def outer(_: RuleInputs) -> Known:
    """All products of the elements of two vectors."""
    return known("m, n -> m n", "memory", linear=_BILINEAR)


def tensordot(ports: RuleInputs) -> Known:
    """Attrs `dims`: the dims of the first input that are summed with those of the second input."""
    left, right = names("m", len(ports.inputs[0])), names("n", len(ports.inputs[1]))
    dims = ports.attrs["dims"]
    pairs = [
        [int(d) % len(factors) for d in side]
        for side, factors in zip(dims, (left, right), strict=True)
    ]
    for i, (a, b) in enumerate(zip(*pairs, strict=True)):
        left[a] = right[b] = f"k{i}"
    out = [
        f
        for factors, gone in zip((left, right), pairs, strict=True)
        for d, f in enumerate(factors)
        if d not in gone
    ]
    return known(
        f"{' '.join(left)}, {' '.join(right)} -> {' '.join(out)}", "matmul", linear=_BILINEAR
    )


LINEAR_ALGEBRA: dict[str, Builder] = {
    "cholesky": cholesky,
    "solve_triangular": solve_triangular,
    "least_squares": least_squares,
    "cdist": cdist,
    "outer": outer,
    "tensordot": tensordot,
}
