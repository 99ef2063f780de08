"""Recognition of decomposed GELU."""

from __future__ import annotations

import math

from meshwright.capture.passes.pattern import Upstream
from meshwright.capture.program import Program, Value


def recognize_gelu(program: Program) -> None:
    """x/2 (1 + tanh(...)) and x/2 (1 + erf(x / sqrt 2)) become gelu."""
    upstream = Upstream(program)
    for node in program.nodes:
        if node.kind != "mul" or len(node.inputs) != 2:
            continue
        for half, gate in upstream.pairs(node.output, "mul"):
            x = upstream.with_number(half, "mul", 0.5)
            gate_inner = upstream.with_number(gate, "add", 1.0)
            if x is None or gate_inner is None:
                continue
            if _is_tanh_of_cubic(upstream, gate_inner, x):
                node.kind, node.inputs, node.attrs = "gelu", [x], {"approximate": "tanh"}
            elif _is_erf(upstream, gate_inner, x):
                node.kind, node.inputs, node.attrs = "gelu", [x], {"approximate": "none"}
            else:
                continue
            break


def _is_tanh_of_cubic(upstream: Upstream, value: Value, x: Value) -> bool:
    """tanh(sqrt(2/pi) * (x + 0.044715 x^3))"""
    tanh = upstream.producer(value, "tanh")
    if tanh is None:
        return False
    inner = upstream.with_number(tanh.inputs[0], "mul", math.sqrt(2 / math.pi))
    if inner is None:
        return False
    for linear, cubic in upstream.pairs(inner, "add"):
        power = upstream.with_number(cubic, "mul", 0.044715)
        if linear is x and power is not None:
            return upstream.with_number(power, "pow", 3.0, "exponent") is x
    return False


def _is_erf(upstream: Upstream, value: Value, x: Value) -> bool:
    erf = upstream.producer(value, "erf")
    if erf is None:
        return False
    divided = upstream.with_number(erf.inputs[0], "div", math.sqrt(2))
    return x in (divided, upstream.with_number(erf.inputs[0], "mul", math.sqrt(0.5)))
