"""The table of rules: what is known of every operator kind."""

from __future__ import annotations

from collections.abc import Mapping

from meshwright.schema import Op, RuleError
from solver.rules.known import Builder, Known, Ports
from solver.rules.pointwise import POINTWISE
from solver.rules.products import PRODUCTS
from solver.rules.shapes import SHAPES

KINDS: Mapping[str, Builder] = {**PRODUCTS, **POINTWISE, **SHAPES}


def rule_of(op: Op, shapes: Mapping[str, tuple[int, ...]]) -> Known | None:
    """What is known of `op`: its own rule, else its kind's; None for an unknown kind.

    Raises RuleError, naming the op, where the rule does not fit its shapes.
    """
    inputs = [shapes[name] for name in op.inputs]
    outputs = [shapes[name] for name in op.outputs]
    try:
        if op.rule is not None:
            summed = bool(op.rule.parsed.summed) and len(inputs) > 1
            found = Known(op.rule, "matmul" if summed else "memory")
        else:
            builder = KINDS.get(op.kind)
            if builder is None:
                return None
            found = builder(Ports(inputs, outputs, op.attrs))
        found.rule.bind(inputs, outputs)
    except RuleError as wrong:
        raise RuleError(
            f"op {op.name!r} ({op.kind}): {wrong.detail}", pointer=wrong.pointer
        ) from None
    except (IndexError, KeyError, ValueError, TypeError, ZeroDivisionError) as wrong:
        raise RuleError(
            f"op {op.name!r}: a {op.kind} cannot have the inputs {[list(s) for s in inputs]}, the "
            f"outputs {[list(s) for s in outputs]} and the attributes {dict(op.attrs)} "
            f"({type(wrong).__name__}: {wrong})"
        ) from None
    return found


__all__ = ["KINDS", "Known", "rule_of"]
