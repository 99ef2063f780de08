"""Rules of recurrent layers: one layer in one direction, with the product of its inputs.

Sequences are independent, so that the batch is free. Every step reads the whole state of the step
before it; the hidden size stays whole on every device.
"""

from __future__ import annotations

from functools import partial

from meshwright.schema.recurrent_inputs import GATES, RESERVE, RecurrentInputs
from meshwright_solver.rules.op_knowledge import Builder, Known, RuleInputs, known

# the backward pass needs all inputs but the biases
_BIASES = ("bias_ih", "bias_hh")


def _layer(ports: RuleInputs, *, kind: str) -> Known:
    """A recurrent layer; `meshwright.schema.recurrent_inputs` has its inputs and outputs.

    FLOPs are those of the products; a step does about ten more for each element of its state.
    """
    shapes = RecurrentInputs.of(kind, ports.inputs, ports.attrs)
    has_projection = shapes.weight_hr is not None
    out = "p" if has_projection else "h"
    terms = {
        "x": "b t! i!",
        "weight_ih": "(g! h!) i!",
        "weight_hh": f"(g! h!) {'p!' if has_projection else 'k!'}",
        "bias_ih": "(g! h!)",
        "bias_hh": "(g! h!)",
        "weight_hr": "p! h!",
        "h0": f"b {out}!",
        "c0": "b h!",
    }
    present = [name for name in terms if getattr(shapes, name) is not None]
    cell = ["b h!"] if kind == "lstm" else []
    reserve = ["b t! (r! h!)"] if RESERVE[kind] else []
    outputs = [f"b t! {out}!", f"b {out}!", *cell, *reserve]
    return known(
        f"{', '.join(terms[name] for name in present)} -> {', '.join(outputs)}",
        "matmul",
        saves_inputs=tuple(k for k, name in enumerate(present) if name not in _BIASES),
        saves_outputs=(0, *((len(outputs) - 1,) if reserve else ())),
        flops=f"2*b*t*g*h*(i+{out}){'+2*b*t*p*h' if has_projection else ''}",
        steps="t",
        # k is the state of the step before, a second dim of the length h in one tensor
        equal=() if has_projection else (("k", "h"),),
    )


RECURRENT: dict[str, Builder] = {kind: partial(_layer, kind=kind) for kind in GATES}
