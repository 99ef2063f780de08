"""Rules of normalizations and softmax: a dim that is reduced and used again is marked `^`."""

from __future__ import annotations

from meshwright.schema import ShardingRule
from meshwright_solver.rules.op_knowledge import Builder, Known, RuleInputs, known, names


def layer_norm(ports: RuleInputs) -> Known:
    """Over the last attrs `dims` dims; output statistics lack those dims or have them as 1."""
    rank = len(ports.inputs[0])
    count = int(ports.attrs.get("dims", 1))
    if not 0 <= count <= rank:
        raise ValueError(f"{count} of {rank} dims")
    outer = " ".join(names("b", rank - count))
    inner = " ".join(f"{f}^" for f in names("h", count))
    statistics_term = f"{outer} {' '.join('1' * count)}".strip()
    statistics = [statistics_term if len(shape) == rank else outer for shape in ports.outputs[1:]]
    input_terms = ", ".join([f"{outer} {inner}", *[inner] * (len(ports.inputs) - 1)])
    output_terms = ", ".join([f"{outer} {inner}", *statistics])
    return known(f"{input_terms} -> {output_terms}", "memory", saves_inputs=(0,))


def batch_norm(ports: RuleInputs) -> Known:
    """Over all dims but the channels; means and variances may be outputs.

    Outside of training the statistics are inputs, and every element is independent.
    """
    has_statistics = not ports.attrs.get("training", True) and len(ports.inputs) > 4
    mark = "" if has_statistics and len(ports.outputs) == 1 else "^"
    spatial = " ".join(f"x{i}{mark}" for i in range(len(ports.inputs[0]) - 2))
    rest = ", c" * (len(ports.inputs) - 1)
    statistics = ", c" * (len(ports.outputs) - 1)
    return known(
        f"n{mark} c {spatial}{rest} -> n{mark} c {spatial}{statistics}",
        "memory",
        saves_inputs=(0,),
    )


def group_norm(ports: RuleInputs) -> Known:
    """Over the channels of a group and all places; means and deviations may be outputs."""
    spatial = " ".join(f"x{i}^" for i in range(len(ports.inputs[0]) - 2))
    groups = int(ports.attrs.get("groups", 1))
    rest = ", (g c^)" * (len(ports.inputs) - 1)
    statistics = ", n g" * (len(ports.outputs) - 1)
    rule = ShardingRule(
        notation=f"n (g c^) {spatial}{rest} -> n (g c^) {spatial}{statistics}",
        saves_inputs=(0,),
        sizes={"g": groups},
    )
    return Known(rule, "memory")


def softmax(ports: RuleInputs) -> Known:
    term = _with_dims(ports, "^")
    return known(f"{term} -> {term}", "memory", saves_inputs=(), saves_outputs=(0,))


def l2_normalize(ports: RuleInputs) -> Known:
    """x over its length along attrs `dims`: one sum of squares."""
    term = _with_dims(ports, "^")
    return known(f"{term} -> {term}", "memory", saves_inputs=(0,))


def _with_dims(ports: RuleInputs, mark: str) -> str:
    rank = len(ports.inputs[0])
    dims = ports.attrs.get("dims", ports.attrs.get("dim", -1))
    marked = {int(d) % rank for d in (dims if isinstance(dims, list) else [dims])}
    return " ".join(f"{f}{mark}" if i in marked else f for i, f in enumerate(names("d", rank)))


NORMALISATIONS: dict[str, Builder] = {
    "rms_norm": layer_norm,
    "layer_norm": layer_norm,
    "batch_norm": batch_norm,
    "group_norm": group_norm,
    "softmax": softmax,
    "log_softmax": softmax,
    "l2_normalize": l2_normalize,
}
