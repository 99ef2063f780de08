"""Sharding rules for the ops of a graph that have no canonical kind."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field

from meshwright.capture.op_rules.batch import batch_rules
from meshwright.capture.op_rules.check import CannotCheck, dependence, evaluations
from meshwright.capture.op_rules.notes import OpRule
from meshwright.capture.op_rules.statement import independent_factors, stated_rule
from meshwright.schema import Graph, GraphError, Op, RuleError


def operator_name(kind: str) -> str:
    """The name of a kind's operator: `mylib::norm` for `mylib.norm.default`."""
    return "::".join(kind.split(".")[:2])


@dataclass
class RuleSearch:
    """Rules of ops without a canonical kind; equal ops are evaluated once.

    stated: rules by operator, such as `mylib::norm`.
    """

    graph: Graph
    stated: Mapping[str, str] = field(default_factory=dict)
    _known: dict[Hashable, OpRule] = field(default_factory=dict)

    def rules(self) -> dict[str, OpRule]:
        """The rule of each op without a canonical kind, by op.

        Raises GraphError for a stated rule that does not fit, or that an evaluation refutes.
        """
        unknown = [op for op in self.graph.ops if "." in op.kind]
        names = {operator_name(op.kind) for op in unknown}
        for name in self.stated:
            if name not in names:
                known = f"they are {', '.join(sorted(names))}" if names else "there are none"
                raise GraphError(
                    f"rules: the program has no op {name!r} without a sharding rule; {known}"
                )
        trained = _with_gradient(self.graph)
        return {op.name: self._rule(op, not trained.isdisjoint(op.inputs)) for op in unknown}

    def _rule(self, op: Op, has_gradient: bool) -> OpRule:
        tensors = [self.graph.tensor(name) for name in (*op.inputs, *op.outputs)]
        key = (op.kind, repr(op.attrs), has_gradient, *((t.shape, t.dtype) for t in tensors))
        if key not in self._known:
            text = self.stated.get(operator_name(op.kind))
            self._known[key] = (
                self._batch_rule(op, has_gradient)
                if text is None
                else self._stated_rule(op, text, has_gradient)
            )
        return self._known[key]

    def _batch_rule(self, op: Op, has_gradient: bool) -> OpRule:
        graph = self.graph
        candidates = list(
            batch_rules(
                [graph.tensor(name) for name in op.inputs],
                [graph.tensor(name) for name in op.outputs],
            )
        )
        if not candidates:
            return OpRule(None, "its results have no dim of the batch")
        try:
            runs = evaluations(graph, op, has_gradient=has_gradient)
        except CannotCheck as why:
            return OpRule(None, str(why))
        for rule in candidates:
            found = dependence(runs, rule, independent_factors(rule))
            if found is None:
                return OpRule(
                    rule, "evaluations on random data show that its samples are independent"
                )
        return OpRule(None, "its samples depend on each other")

    def _stated_rule(self, op: Op, text: str, has_gradient: bool) -> OpRule:
        name = operator_name(op.kind)
        rule = stated_rule(text)
        shapes = [
            self.graph.tensor(tensor).dims(self.graph.symbols)
            for tensor in (*op.inputs, *op.outputs)
        ]
        try:
            rule.bind(shapes[: len(op.inputs)], shapes[len(op.inputs) :])
        except RuleError as wrong:
            raise GraphError(f"rules: {name} at {op.name!r}: {wrong.detail}") from None
        try:
            runs = evaluations(self.graph, op, has_gradient=has_gradient)
        except CannotCheck as why:
            return OpRule(rule, f"it is stated, and not checked, as {why}")
        found = dependence(runs, rule, independent_factors(rule))
        if found is not None:
            raise GraphError(
                f"rules: {name} is not independent along {found.factor!r} of {text!r}: in an "
                f"evaluation on random data {found.what}. Write [{found.factor}] for a dim that "
                "stays whole"
            )
        return OpRule(rule, "it is stated, and evaluations on random data agree with it")


def _with_gradient(graph: Graph) -> set[str]:
    """The tensors that depend on a trained parameter."""
    names = {t.name for t in graph.tensors if t.role == "parameter" and t.trainable}
    for op in graph.topological_order():
        if not names.isdisjoint(op.inputs):
            names.update(op.outputs)
    return names
