"""Rules of quantized values and of products with them.

Scales and offsets are broadcast from the right. A product that is rounded, or shifted after its
sum, keeps the summed dim whole: partial values cannot be rounded or shifted part by part.
"""

from __future__ import annotations

from meshwright_solver.rules.op_knowledge import Builder, Known, RuleInputs, known, names
from meshwright_solver.rules.pointwise import pointwise


def dynamic_quant(ports: RuleInputs) -> Known:
    """Rows scaled by their largest element; a second input smooths the columns."""
    lead = " ".join(names("b", len(ports.inputs[0]) - 1))
    smooth = ", h^" * (len(ports.inputs) - 1)
    return known(f"{lead} h^{smooth} -> {lead} h^, {lead}", "memory", saves_inputs=())


def fake_quant(ports: RuleInputs) -> Known:
    """x clipped between two limits, one pair for each place of attrs `dim` or one for all."""
    term, limit = _channel(ports, "")
    return known(f"{term}, {limit}, {limit} -> {term}", "memory")


def min_max_update(ports: RuleInputs) -> Known:
    """Running limits, updated with the least and the greatest value of x."""
    term, limit = _channel(ports, "^")
    return known(f"{term}, {limit}, {limit} -> {limit}, {limit}", "memory", saves_inputs=())


def _channel(ports: RuleInputs, mark: str) -> tuple[str, str]:
    """Terms of x, with all dims but the channel marked, and of the limits."""
    factors = names("d", len(ports.inputs[0]))
    dim = ports.attrs.get("dim")
    if dim is None:
        if ports.inputs[1] != (1,):
            raise ValueError("limits of all elements have the shape [1]; else say dim")
        return " ".join(f"{f}{mark}" for f in factors), "1"
    at = int(dim) % len(factors)
    return " ".join(f if i == at else f"{f}{mark}" for i, f in enumerate(factors)), f"d{at}"


def quant_matmul(ports: RuleInputs) -> Known:
    """Integer rows and weight [k, n], scales [n] or one; optional bias or offset [n]."""
    lead = " ".join(names("b", len(ports.inputs[0]) - 2))
    weight = " ".join(names("b", len(ports.inputs[1]) - 2))
    rounded = "int" in str(ports.attrs.get("dtype", "float16")) or len(ports.inputs) > 3
    k = "k!" if rounded else "k"
    rest = ["n" if s == ports.outputs[0][-1:] else "1" for s in ports.inputs[2:]]
    return known(
        f"{', '.join([f'{lead} m {k}, {weight} {k} n', *rest])} -> {lead} m n",
        "matmul",
        saves_inputs=(),
    )


def weight_quant_matmul(ports: RuleInputs) -> Known:
    """Rows and an integer weight [k, n] with scales (and offsets) [n], or [g, n] by groups."""
    lead = " ".join(names("b", len(ports.inputs[0]) - 1))
    grouped = len(ports.inputs[2]) == 2
    k = "(g r)" if grouped else "k"
    scale = "g n" if grouped else "n"
    rest = [scale] * (len(ports.inputs) - 2)
    return known(
        f"{', '.join([f'{lead} {k}, {k} n', *rest])} -> {lead} n",
        "matmul",
        linear=((0,),),
        saves_inputs=(1, 2),
    )


def compressed_matmul(ports: RuleInputs) -> Known:
    """Rows [m, k] with a compressed weight, which has no known parts: only rows are shardable."""
    rest = [" ".join(f"w{i}_{d}!" for d in range(len(s))) for i, s in enumerate(ports.inputs)]
    return known(
        f"{', '.join(['m k!', *rest[1:]])} -> m n!",
        "matmul",
        saves_inputs=(),
        flops=f"2*m*k*{ports.outputs[0][1]}",
    )


QUANTISATION: dict[str, Builder] = {
    "quantize": pointwise(saves_inputs=()),
    "dequantize": pointwise(saves_inputs=()),
    "dynamic_quant": dynamic_quant,
    "fake_quant": fake_quant,
    "min_max_update": min_max_update,
    "quant_matmul": quant_matmul,
    "weight_quant_matmul": weight_quant_matmul,
    "compressed_matmul": compressed_matmul,
}
