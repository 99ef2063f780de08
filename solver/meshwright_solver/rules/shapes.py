"""Rules of ops that move, cut, join or repeat values without computation."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise

from meshwright_solver.rules.op_knowledge import Builder, Known, RuleInputs, known, names


def _moves(
    notation: str, *, is_view: bool = False, sizes: Mapping[str, int] | None = None
) -> Known:
    return known(
        notation,
        "view" if is_view else "memory",
        linear=((0,),) if notation.split("->")[0].strip() else (),
        saves_inputs=(),
        flops=0,
        sizes=sizes,
    )


def reshape(ports: RuleInputs) -> Known:
    """The common refinement of both shapes; dims without one are not shardable."""
    input_shape, output_shape = ports.inputs[0], ports.outputs[0]
    if math.prod(input_shape) != math.prod(output_shape):
        raise ValueError(
            f"{math.prod(input_shape)} elements cannot become {math.prod(output_shape)}"
        )
    left: list[str] = []
    right: list[str] = []
    i = j = fresh = 0
    while i < len(input_shape) or j < len(output_shape):
        a, b = [], []
        product_a = product_b = 1
        while True:
            if product_a <= product_b and i < len(input_shape):
                product_a *= input_shape[i]
                a.append(input_shape[i])
                i += 1
            elif j < len(output_shape):
                product_b *= output_shape[j]
                b.append(output_shape[j])
                j += 1
            elif i < len(input_shape):
                product_a *= input_shape[i]
                a.append(input_shape[i])
                i += 1
            if product_a == product_b and (
                (a and b) or (i >= len(input_shape) and j >= len(output_shape))
            ):
                break
        cuts = _chain(a, b)
        if cuts is None:
            left += [f"u{fresh + k}!" if size > 1 else "1" for k, size in enumerate(a)]
            right += [f"w{fresh + k}!" if size > 1 else "1" for k, size in enumerate(b)]
        else:
            left += _dims(a, cuts, fresh)
            right += _dims(b, cuts, fresh)
        fresh += len(a) + len(b) + 1
    return _moves(f"{' '.join(left)} -> {' '.join(right)}", is_view=True)


def _chain(a: list[int], b: list[int]) -> list[int] | None:
    """The inner products at which either side cuts, descending to 1; None where they conflict."""
    cuts = {1}
    for sizes in (a, b):
        inner = 1
        for size in reversed(sizes):
            inner *= size
            cuts.add(inner)
    ordered = sorted(cuts, reverse=True)
    clash = any(outer % inner for outer, inner in pairwise(ordered))
    return None if clash else ordered


def _dims(sizes: list[int], cuts: list[int], fresh: int) -> list[str]:
    dims = []
    inner = math.prod(sizes)
    for size in sizes:
        outer, inner = inner, inner // size
        inside = [f"f{fresh}_{k}" for k, cut in enumerate(cuts[1:]) if inner <= cut < outer]
        dims.append(
            "1" if not inside else inside[0] if len(inside) == 1 else f"({' '.join(inside)})"
        )
    return dims


def transpose(ports: RuleInputs) -> Known:
    factors = names("d", len(ports.inputs[0]))
    order = [int(d) for d in ports.attrs["dims"]]
    return _moves(f"{' '.join(factors)} -> {' '.join(factors[d] for d in order)}", is_view=True)


def expand(ports: RuleInputs) -> Known:
    input_shape, output_shape = ports.inputs[0], ports.outputs[0]
    factors = names("d", len(output_shape))
    input_factors = factors[len(output_shape) - len(input_shape) :]
    term = " ".join(
        "1" if size == 1 and full != 1 else name
        for name, size, full in zip(
            input_factors,
            input_shape,
            output_shape[len(output_shape) - len(input_shape) :],
            strict=True,
        )
    )
    return _moves(f"{term} -> {' '.join(factors)}")


def cut(ports: RuleInputs) -> Known:
    """slice: an aligned equal part leaves the inner factor shardable."""
    input_shape, output_shape = ports.inputs[0], ports.outputs[0]
    left, right = [], []
    for d, (size, length) in enumerate(zip(input_shape, output_shape, strict=True)):
        start = ports.attrs.get("start", 0)
        aligned = (
            int(ports.attrs.get("step", 1)) == 1
            and isinstance(start, int)
            and size % length == 0
            and start % length == 0
        )
        if size == length:
            left.append(f"d{d}")
            right.append(f"d{d}")
        elif aligned:
            left.append(f"(c{d}! d{d})")
            right.append(f"d{d}")
        else:
            left.append(f"u{d}!")
            right.append(f"w{d}!")
    return _moves(f"{' '.join(left)} -> {' '.join(right)}")


def split(ports: RuleInputs) -> Known:
    rank = len(ports.inputs[0])
    dim = int(ports.attrs["dim"]) % rank
    sizes = [shape[dim] for shape in ports.outputs]
    joined, parts = _segments(sizes)
    notation = f"{_at(rank, dim, joined)} -> {', '.join(_at(rank, dim, p) for p in parts)}"
    return _moves(notation, sizes=_segment_sizes(sizes))


def concat(ports: RuleInputs) -> Known:
    """Concatenation along attrs `dim`; with attrs `in_place` the parts are adjacent already."""
    rank = len(ports.inputs[0])
    dim = int(ports.attrs["dim"]) % rank
    lengths = [shape[dim] for shape in ports.inputs]
    joined, parts = _segments(lengths)
    return known(
        f"{', '.join(_at(rank, dim, p) for p in parts)} -> {_at(rank, dim, joined)}",
        "view" if ports.attrs.get("in_place") else "memory",
        linear=(tuple(range(len(parts))),),
        saves_inputs=(),
        flops=0,
        sizes=_segment_sizes(lengths),
    )


def _segment_sizes(sizes: list[int]) -> dict[str, int]:
    """The common factor g of parts, where no part alone has its size: 5120, 5376 and 80 have 16."""
    common = math.gcd(*sizes)
    return {} if common == 1 or common in sizes else {"g": common}


def _segments(sizes: list[int]) -> tuple[str, list[str]]:
    """A dim as a sum of parts, and the parts; their common factor is shardable."""
    if len(set(sizes)) == 1:
        return ("y", ["y"]) if len(sizes) == 1 else ("(p! y)", ["y"] * len(sizes))
    common = math.gcd(*sizes)
    if common == 1:
        parts = [f"p{i}!" for i in range(len(sizes))]
        return f"({'|'.join(parts)})", parts
    parts = ["g" if size == common else f"g p{i}!" for i, size in enumerate(sizes)]
    return f"({'|'.join(parts)})", [f"({part})" if " " in part else part for part in parts]


def _at(rank: int, dim: int, middle: str) -> str:
    return " ".join(middle if i == dim else f"d{i}" for i in range(rank))


def stack(ports: RuleInputs) -> Known:
    rank = len(ports.inputs[0])
    dim = int(ports.attrs.get("dim", 0)) % (rank + 1)
    factors = names("d", rank)
    out = [*factors[:dim], "p!", *factors[dim:]]
    return known(
        f"{', '.join([' '.join(factors)] * len(ports.inputs))} -> {' '.join(out)}",
        "memory",
        linear=(tuple(range(len(ports.inputs))),),
        saves_inputs=(),
        flops=0,
    )


def pad(ports: RuleInputs) -> Known:
    pairs = list(zip(ports.inputs[0], ports.outputs[0], strict=True))
    left = " ".join(f"d{d}" if a == b else f"u{d}!" for d, (a, b) in enumerate(pairs))
    right = " ".join(f"d{d}" if a == b else f"w{d}!" for d, (a, b) in enumerate(pairs))
    if ports.attrs.get("value", 0) in (0, None):
        return _moves(f"{left} -> {right}")
    return known(f"{left} -> {right}", "memory", saves_inputs=(), flops=0)


def along_dim(ports: RuleInputs) -> Known:
    """Ops that move places along some dims (roll, flip, fftshift); no dims means all dims."""
    rank = len(ports.inputs[0])
    dims = ports.attrs.get("dims", ports.attrs.get("dim", -1))
    if dims == []:
        dims = list(range(rank))
    mixed = {int(d) % max(1, rank) for d in (dims if isinstance(dims, list) else [dims])}
    term = " ".join(f"{f}!" if i in mixed else f for i, f in enumerate(names("d", rank)))
    return _moves(f"{term} -> {term}")


def tile(ports: RuleInputs) -> Known:
    """Copies of every dim, one behind the other; there may be new dims in front."""
    input_shape, output_shape = ports.inputs[0], ports.outputs[0]
    lead = len(output_shape) - len(input_shape)
    out = [f"r{d}" for d in range(lead)]
    for d, (size, full) in enumerate(zip(input_shape, output_shape[lead:], strict=True)):
        out.append(f"d{d}" if size == full else f"(r{d + lead} d{d})")
    return _moves(f"{' '.join(names('d', len(input_shape)))} -> {' '.join(out)}")


def repeat_interleave(ports: RuleInputs) -> Known:
    """Copies of every element, side by side; counts in a second input differ by element."""
    factors = names("d", len(ports.inputs[0]))
    dim = ports.attrs.get("dim")
    if len(ports.inputs) > 1:
        if dim is None:
            input_dims, out = [f"{f}!" for f in factors], ["o!"]
        else:
            at = int(dim) % len(factors)
            input_dims = [f"{f}!" if i == at else f for i, f in enumerate(factors)]
            out = [*factors[:at], "o!", *factors[at + 1 :]]
        counts = " ".join(f"c{i}!" for i in range(len(ports.inputs[1])))
        return known(
            f"{' '.join(input_dims)}, {counts} -> {' '.join(out)}",
            "memory",
            linear=((0,),),
            saves_inputs=(1,),
            flops=0,
        )
    if dim is None:
        return _moves(f"{' '.join(factors)} -> ({' '.join(factors)} r)")
    at = int(dim) % len(factors)
    repeated = [*factors[:at], f"({factors[at]} r)", *factors[at + 1 :]]
    return _moves(f"{' '.join(factors)} -> {' '.join(repeated)}")


def identity(ports: RuleInputs) -> Known:
    """The same value under another name; several inputs pass side by side."""
    if list(ports.inputs) != list(ports.outputs):
        raise ValueError("outputs have the shapes of the inputs")
    if len(ports.inputs) == 1:
        term = " ".join(names("d", len(ports.inputs[0])))
        return _moves(f"{term} -> {term}", is_view=True)
    shapes = list(ports.inputs)
    batch = {shape[0] for shape in shapes if shape}
    lead = "b" if len(batch) == 1 and all(shapes) else "b!"
    terms = ", ".join(
        " ".join([lead if lead == "b" else f"b{i}!", *(f"d{i}_{d}!" for d in range(1, len(s)))])
        if s
        else ""
        for i, s in enumerate(shapes)
    )
    return known(f"{terms} -> {terms}", "memory", saves_inputs=(), flops=0)


def triangle(ports: RuleInputs) -> Known:
    factors = " ".join(names("d", len(ports.inputs[0])))
    return _moves(f"{factors} -> {factors}")


SHAPES: dict[str, Builder] = {
    "reshape": reshape,
    "transpose": transpose,
    "expand": expand,
    "slice": cut,
    "split": split,
    "concat": concat,
    "stack": stack,
    "pad": pad,
    "roll": along_dim,
    "flip": along_dim,
    "fftshift": along_dim,
    "tile": tile,
    "repeat_interleave": repeat_interleave,
    "identity": identity,
    "tril": triangle,
    "triu": triangle,
}
