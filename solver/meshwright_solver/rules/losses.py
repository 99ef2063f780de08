"""Rules of losses."""

from __future__ import annotations

from meshwright_solver.rules.op_knowledge import Builder, Known, RuleInputs, known, names
from meshwright_solver.rules.pointwise import broadcast


def cross_entropy(ports: RuleInputs) -> Known:
    """Loss against class numbers; split classes exchange the maximum and the sum of every row."""
    lead = " ".join(names("b", len(ports.inputs[1])))
    out = "" if ports.attrs.get("reduction", "mean") != "none" else lead
    return known(f"{lead} v^, {lead} -> {out}", "memory", saves_inputs=(0, 1))


def softmax_cross_entropy(ports: RuleInputs) -> Known:
    """Loss against probabilities: one for every row, and optionally the gradient of the logits."""
    lead = " ".join(names("b", len(ports.inputs[0]) - 1))
    outs = [lead, f"{lead} v^"][: len(ports.outputs)]
    return known(f"{lead} v^, {lead} v^ -> {', '.join(outs)}", "memory", saves_inputs=(0, 1))


def element_wise_loss(ports: RuleInputs) -> Known:
    """A loss of every element, summed or not; zero where all inputs are zero."""
    terms, out = broadcast(RuleInputs(ports.inputs, [ports.inputs[0]], ports.attrs))
    return known(f"{', '.join(terms)} -> {out if ports.outputs[0] else ''}", "memory")


LOSSES: dict[str, Builder] = {
    "cross_entropy": cross_entropy,
    "softmax_cross_entropy": softmax_cross_entropy,
    "mse_loss": element_wise_loss,
    "binary_cross_entropy": element_wise_loss,
    "kl_div": element_wise_loss,
}
