"""Rules of matrix products, attention, convolutions, embeddings and mixtures of experts."""

from __future__ import annotations

import math

from meshwright.schema import RuleError
from meshwright_solver.rules.op_knowledge import Builder, Known, RuleInputs, known, names

_BILINEAR = ((0,), (1,))


def linear(ports: RuleInputs) -> Known:
    lead = " ".join(names("b", len(ports.inputs[0]) - 1))
    weight = "k n" if ports.attrs.get("weight_layout") == "kn" else "n k"
    bias = ", n" if len(ports.inputs) > 2 else ""
    return known(
        f"{lead} k, {weight}{bias} -> {lead} n",
        "matmul",
        linear=() if bias else _BILINEAR,
        saves_inputs=(0, 1),
    )


def matmul(ports: RuleInputs) -> Known:
    """torch.matmul: leading dims broadcast; a vector has no rows (left) or no columns (right).

    Attrs transpose_a, transpose_b: the last two dims of a matrix are swapped.
    """
    a, b = ports.inputs[0], ports.inputs[1]
    rank = max(len(a), len(b), 2)
    lead = names("b", rank - 2)
    out = ports.outputs[0][: rank - 2]

    def term(shape: tuple[int, ...], *last: str) -> str:
        count = max(0, len(shape) - 2)
        factors = [
            "1" if size == 1 and full != 1 else name
            for name, size, full in zip(
                lead[len(lead) - count :], shape[:count], out[len(out) - count :], strict=True
            )
        ]
        return " ".join([*factors, *last])

    rows, columns = ["m"] if len(a) > 1 else [], ["n"] if len(b) > 1 else []
    of_a, of_b = [*rows, "k"], ["k", *columns]
    if ports.attrs.get("transpose_a"):
        of_a.reverse()
    if ports.attrs.get("transpose_b"):
        of_b.reverse()
    left, right = term(a, *of_a), term(b, *of_b)
    return known(
        f"{left}, {right} -> {' '.join([*lead, *rows, *columns])}", "matmul", linear=_BILINEAR
    )


def attention(ports: RuleInputs) -> Known:
    """Queries, keys and values; then a mask; then sinks, where the attribute `sinks` says so."""
    query, key = ports.inputs[0], ports.inputs[1]
    grouped = query[1] != key[1]
    heads = "(g r)" if grouped else "g"
    has_sinks = bool(ports.attrs.get("sinks"))
    mask = ""
    if len(ports.inputs) - has_sinks > 3:
        mask = ", " + " ".join(
            "1" if size == 1 else name
            for size, name in zip(
                ports.inputs[3], ["b", heads, "s", "t"][4 - len(ports.inputs[3]) :], strict=True
            )
        )
    sinks = f", {heads}" if has_sinks else ""
    flops = "2*b*g*s*t*(d+e)" + ("*r" if grouped else "")
    keys = _keys_of_a_row(ports)
    if keys is not None:
        flops = flops.replace("*t", f"*{keys}")
    elif ports.attrs.get("causal"):
        flops = f"({flops})//2"
    return known(
        f"b {heads} s d!, b g t!@s? d!, b g t!@s? e!{mask}{sinks} -> b {heads} s e!",
        "attention",
        saves_inputs=(0, 1, 2),
        saves_outputs=(0,),
        flops=flops,
        skewed=("s",) if ports.attrs.get("causal") else (),
    )


def _keys_of_a_row(ports: RuleInputs) -> int | None:
    """The keys that a query of a window or a chunk sees on average; None where all count."""
    length = ports.inputs[1][2]
    window, chunk = int(ports.attrs.get("window", length)), int(ports.attrs.get("chunk", length))
    if window < length:
        behind = window - window * (window - 1) / (2 * length)
        return max(1, round(behind if ports.attrs.get("causal") else 2 * behind - 1))
    return (chunk + 1) // 2 if chunk < length else None


def rotary(ports: RuleInputs) -> Known:
    batch = "b" if ports.inputs[1][0] != 1 else "1"
    table = f"{batch} s d!" if len(ports.inputs[1]) == 3 else "s d!"
    return known(
        f"b h s d!, {table}, {table} -> b h s d!", "memory", linear=((0,),), saves_inputs=(1, 2)
    )


def embedding(ports: RuleInputs) -> Known:
    """Table rows by number; manual_split: chunk k of the rows serves chunk k of the ids' last dim.

    The ids number the rows of the whole table, and those of a chunk of fields lie in its rows.
    """
    dims = names("b", len(ports.inputs[1]))
    ids = " ".join(dims)
    rows = "v" + "".join(f"@{name}?" for name in dims)
    chunks: dict[str, tuple[int, ...]] = {}
    if "manual_split" in ports.attrs:
        rows = f"v@{dims[-1]}"
        chunks["v"] = _manual_split(ports)
    return known(
        f"{rows} h, {ids} -> {ids} h",
        "memory",
        saves_inputs=(1,),
        flops=0,
        sparse_inputs=(0,),
        chunks=chunks,
    )


def _manual_split(ports: RuleInputs) -> tuple[int, ...]:
    lengths = tuple(int(rows) for rows in ports.attrs["manual_split"])
    table, fields = ports.inputs[0][0], ports.inputs[1][-1]
    if not lengths or min(lengths) < 1 or sum(lengths) != table or fields % len(lengths):
        raise RuleError(
            f"manual_split {list(lengths)} does not fit a table of {table} rows and {fields} "
            f"fields. Use chunks of 1 row or more that sum to {table}, and as many chunks as "
            f"divide {fields}"
        )
    return lengths


def convolution(ports: RuleInputs) -> Known:
    spatial = len(ports.inputs[0]) - 2
    kernel = ports.inputs[1][2:]
    out = " ".join(f"x{i}~" for i in range(spatial))
    window = " ".join(f"w{i}!" for i in range(spatial))
    bias = ", o" if len(ports.inputs) > 2 else ""
    groups = int(ports.attrs.get("groups", 1))
    if groups == 1:
        notation = f"n c {out}, o c {window}{bias} -> n o {out}"
        points = "n*c*o"
    elif groups == ports.inputs[0][1] == ports.outputs[0][1]:
        notation = f"n o {out}, o 1 {window}{bias} -> n o {out}"
        points = "n*o"
    else:
        notation = f"n (q c) {out}, (q o) c {window}{', (q o)' if bias else ''} -> n (q o) {out}"
        points = "n*q*c*o"
    area = "*".join(f"x{i}*w{i}" for i in range(spatial))
    return known(
        notation,
        "convolution",
        linear=() if bias else _BILINEAR,
        saves_inputs=(0, 1),
        flops=f"2*{points}*{area}",
        halo_elements={f"x{i}": size - 1 for i, size in enumerate(kernel)},
    )


def convolution_transpose(ports: RuleInputs) -> Known:
    spatial = len(ports.inputs[0]) - 2
    kernel = ports.inputs[1][2:]
    out = " ".join(f"x{i}~" for i in range(spatial))
    window = " ".join(f"w{i}!" for i in range(spatial))
    grouped = int(ports.attrs.get("groups", 1)) > 1
    input_channels, output_channels = ("(q c)", "(q o)") if grouped else ("c", "o")
    bias = f", {output_channels}" if len(ports.inputs) > 2 else ""
    # each input point meets every kernel point of every output channel once
    points = math.prod(ports.inputs[0]) * math.prod(ports.inputs[1][1:])
    return known(
        f"n {input_channels} {out}, {input_channels} o {window}{bias} -> n {output_channels} {out}",
        "convolution",
        linear=() if bias else _BILINEAR,
        saves_inputs=(0, 1),
        flops=2 * points,
        halo_elements={f"x{i}": max(0, size - 1) for i, size in enumerate(kernel)},
    )


def pooling(ports: RuleInputs) -> Known:
    spatial = len(ports.inputs[0]) - 2
    window = ports.attrs.get("kernel", [2] * spatial)
    sizes = [int(w) for w in (window if isinstance(window, list) else [window] * spatial)]
    out = " ".join(f"x{i}~" for i in range(spatial))
    strides = ports.attrs.get("stride") or sizes
    steps = [int(s) for s in (strides if isinstance(strides, list) else [strides] * spatial)]
    return known(
        f"n c {out} -> n c {out}",
        "memory",
        halo_elements={f"x{i}": max(0, sizes[i] - steps[i]) for i in range(spatial)},
    )


def upsample(ports: RuleInputs) -> Known:
    spatial = len(ports.inputs[0]) - 2
    out = " ".join(f"x{i}~" for i in range(spatial))
    nearest = ports.attrs.get("mode", "nearest") == "nearest"
    return known(
        f"n c {out} -> n c {out}",
        "memory",
        linear=((0,),),
        saves_inputs=(),
        halo_elements={f"x{i}": 0 if nearest else 2 for i in range(spatial)},
    )


def moe_dispatch(_: RuleInputs) -> Known:
    return known(
        "b s h, b s k! -> e! b c@s h", "memory", linear=((0,),), saves_inputs=(1,), flops=0
    )


def moe_combine(_: RuleInputs) -> Known:
    return known("e! b c@s h, b s k!, b s k! -> b s h", "memory", linear=((0,),), flops=0)


def expert_matmul(ports: RuleInputs) -> Known:
    weight = "e k n" if ports.attrs.get("weight_layout") == "ehf" else "e n k"
    return known(f"e b c k, {weight} -> e b c n", "matmul", linear=_BILINEAR)


PRODUCTS: dict[str, Builder] = {
    "linear": linear,
    "matmul": matmul,
    "attention": attention,
    "rotary": rotary,
    "embedding": embedding,
    "conv": convolution,
    "conv_transpose": convolution_transpose,
    "max_pool": pooling,
    "avg_pool": pooling,
    "upsample": upsample,
    "moe_dispatch": moe_dispatch,
    "moe_combine": moe_combine,
    "expert_matmul": expert_matmul,
}
