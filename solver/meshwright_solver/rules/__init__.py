"""Rule table: the sharding rule and op class of every operator kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from meshwright.schema import Factor, Op, RuleError
from meshwright_solver.rules.cache import CACHE
from meshwright_solver.rules.creation import CREATION
from meshwright_solver.rules.experts import ROUTING
from meshwright_solver.rules.indexing import INDEXING
from meshwright_solver.rules.linear_algebra import LINEAR_ALGEBRA
from meshwright_solver.rules.losses import LOSSES
from meshwright_solver.rules.normalisation import NORMALISATIONS
from meshwright_solver.rules.op_knowledge import Builder, Known, RuleInputs, Shape
from meshwright_solver.rules.opaque import STRUCTURE
from meshwright_solver.rules.pointwise import POINTWISE
from meshwright_solver.rules.products import PRODUCTS
from meshwright_solver.rules.quantisation import QUANTISATION
from meshwright_solver.rules.recurrent import RECURRENT
from meshwright_solver.rules.reductions import REDUCTIONS
from meshwright_solver.rules.shapes import SHAPES
from meshwright_solver.rules.spectral import SPECTRAL
from meshwright_solver.rules.vision import VISION

FAMILIES: Mapping[str, Mapping[str, Builder]] = {
    "Element-wise": POINTWISE,
    "Products, attention, convolutions, embeddings": PRODUCTS,
    "Caches and recurrences": CACHE,
    "Recurrent layers": RECURRENT,
    "Experts": ROUTING,
    "Normalisations": NORMALISATIONS,
    "Losses": LOSSES,
    "Reductions and what walks along a dim": REDUCTIONS,
    "Reading and writing by number": INDEXING,
    "Shapes": SHAPES,
    "Values from nothing": CREATION,
    "Linear algebra": LINEAR_ALGEBRA,
    "Transforms": SPECTRAL,
    "Quantisation": QUANTISATION,
    "Boxes and samples of images": VISION,
    "Structure": STRUCTURE,
}
KINDS: Mapping[str, Builder] = {
    kind: builder for family in FAMILIES.values() for kind, builder in family.items()
}


@dataclass(frozen=True, slots=True)
class Bound:
    """A rule and the sizes of its factors, for one op's shapes."""

    known: Known
    sizes: Mapping[Factor, int]


class RuleTable:
    """Rules of ops; ops of equal kind, shapes and attributes share one rule."""

    def __init__(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        self.shapes = shapes
        self._bound: dict[object, Bound | None] = {}

    def rule_of(self, op: Op) -> Bound | None:
        """The rule of `op`: its own rule, else its kind's; None for an unknown kind.

        Raises RuleError, which names the op, where the rule does not fit the shapes.
        """
        inputs = tuple([self.shapes[name] for name in op.inputs])
        outputs = tuple([self.shapes[name] for name in op.outputs])
        stated_rule = op.rule.model_dump_json() if op.rule is not None else None
        key = (op.kind, inputs, outputs, repr(op.attrs) if op.attrs else "", stated_rule)
        bound = self._bound.get(key)
        if bound is None and key not in self._bound:
            bound = self._bound[key] = _bind(op, inputs, outputs)
        return bound


def _bind(op: Op, inputs: Sequence[Shape], outputs: Sequence[Shape]) -> Bound | None:
    try:
        if not inputs and len(outputs) > 1:
            return None  # terms are counted from the first input; all outputs are free anyway
        if op.rule is not None:
            summed = bool(op.rule.parsed.summed) and len(inputs) > 1
            knowledge = Known(op.rule, "matmul" if summed else "memory")
        else:
            builder = KINDS.get(op.kind)
            if builder is None:
                return None
            knowledge = builder(RuleInputs(inputs, outputs, op.attrs))
        return Bound(knowledge, knowledge.rule.bind(inputs, outputs))
    except RuleError as wrong:
        raise RuleError(
            f"op {op.name!r} ({op.kind}): {wrong.detail}", pointer=wrong.pointer
        ) from None
    except (IndexError, KeyError, ValueError, TypeError, ArithmeticError) as wrong:
        raise RuleError(
            f"op {op.name!r}: a {op.kind} cannot have the inputs {[list(s) for s in inputs]}, the "
            f"outputs {[list(s) for s in outputs]} and the attributes {dict(op.attrs)} "
            f"({type(wrong).__name__}: {wrong})"
        ) from None


__all__ = ["FAMILIES", "KINDS", "Bound", "Known", "RuleTable"]
