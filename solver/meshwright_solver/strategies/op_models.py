"""Op models of a problem on one mesh.

Equal models are one object, so that the search solves repeated blocks once.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field

from meshwright_solver.common.identity_keys import IdentityKeys
from meshwright_solver.layouts.states import StateSpace
from meshwright_solver.problem.precision_recipes import SHARE
from meshwright_solver.problem.problem import Problem
from meshwright_solver.problem.uneven import Key
from meshwright_solver.problem.values import Values
from meshwright_solver.strategies.op_model import OpModel, PortModel
from meshwright_solver.strategies.op_template import OpSketch
from meshwright_solver.strategies.op_templates import OpSketches


@dataclass(slots=True)
class OpModels:
    """Op models of a problem on one mesh; ops of equal content share one object."""

    problem: Problem
    values: Values
    axis_sizes: tuple[int, ...]
    axis_levels: tuple[int, ...]
    sketches: OpSketches
    _key_of: IdentityKeys = field(default_factory=IdentityKeys)
    _spaces: dict[StateSpace, StateSpace] = field(default_factory=dict)
    _models: dict[Hashable, OpModel] = field(default_factory=dict)
    _by_position: dict[int, OpModel] = field(default_factory=dict)
    _by_look: dict[Hashable, OpModel] = field(default_factory=dict)
    _by_root: dict[str, StateSpace] = field(default_factory=dict)
    _by_tensor_look: dict[int, StateSpace] = field(default_factory=dict)

    def space(self, root: str) -> StateSpace:
        """The states of the value with this root tensor."""
        known = self._by_root.get(root)
        if known is not None:
            return known
        if self.problem.uneven.is_any:
            space = self._space(root)
        else:
            look = self.sketches.tensor_look(root)
            alike = self._by_tensor_look.get(look)
            space = self._by_tensor_look[look] = alike or self._space(root)
        self._by_root[root] = space
        return space

    def _space(self, root: str) -> StateSpace:
        value = self.values.value_of[root]
        info = self.problem.tensors[value.root]
        sizes = [info.slots[slot].size for slot in value.slots]
        spans = self._spans([(value.root, slot) for slot in value.slots], sizes)
        counts: tuple[int, ...] = ()
        if info.chunks:
            chunks = [info.chunks.get(slot, ()) for slot in value.slots]
            pairs = zip(chunks, spans or sizes, strict=True)
            spans = tuple(
                len(lengths) * max(lengths) if lengths else span for lengths, span in pairs
            )
            counts = tuple(len(lengths) for lengths in chunks)
        load = self.problem.loads.of_slots(value.root, value.slots)
        low = self.values.low_precision
        space = StateSpace(
            tuple(sizes),
            self.axis_sizes,
            info.bytes,
            info.has_gradient,
            spans,
            counts,
            load,
            sent_share=SHARE if root in low.sent else 1.0,
            saved_share=SHARE if root in low.saved else 1.0,
            top_k=self.problem.top_k_of(value.slot_of),
        )
        return self._spaces.setdefault(space, space)

    def _spans(self, keys: Sequence[Key], sizes: Sequence[int]) -> tuple[int, ...]:
        """Spans of slots or parts, their sizes for those without one; () if none has one."""
        if not self.problem.uneven.is_any:
            return ()
        spans = [self.problem.uneven.span(key, self.axis_sizes) for key in keys]
        if all(span is None for span in spans):
            return ()
        return tuple(span or size for span, size in zip(spans, sizes, strict=True))

    def model(self, position: int) -> OpModel:
        """The model of the op at this position of the problem."""
        model = self._by_position.get(position)
        if model is None:
            if self.problem.uneven.is_any:
                model = self._model(position)
            else:
                look = (self.sketches.look(position), self._cut(position))
                alike = self._by_look.get(look)
                model = self._by_look[look] = alike or self._model(position)
            self._by_position[position] = model
        return model

    def _model(self, position: int) -> OpModel:
        sketch = self.sketches.sketch(position)
        spans = self._spans([(position, j) for j in range(len(sketch.sizes))], sketch.sizes)
        spaces = tuple(self._port_spaces(position))
        key = (self._key_of(sketch), *self._key_of.each(spaces), spans, self._cut(position))
        known = self._models.get(key)
        if known is None:
            known = self._models[key] = self._make(position, sketch, spaces, spans)
        return known

    def _port_spaces(self, position: int) -> Iterator[StateSpace | None]:
        """State spaces of the inputs, then of the outputs; None where the value is free."""
        op = self.problem.ops[position]
        for port in (*op.inputs, *op.outputs):
            value = self.values.value_of[port.tensor]
            yield None if value.is_free else self.space(value.root)

    def _cut(self, position: int) -> Hashable:
        """A subclass's further key of a model, beside its sketch, spaces and spans."""
        del position
        return None

    def _make(
        self,
        position: int,
        sketch: OpSketch,
        spaces: Sequence[StateSpace | None],
        spans: tuple[int, ...],
    ) -> OpModel:
        del position
        ports = tuple(
            PortModel(**vars(port), space=space)
            for space, port in zip(spaces, (*sketch.inputs, *sketch.outputs), strict=True)
        )
        on_mesh = {
            "inputs": ports[: len(sketch.inputs)],
            "outputs": ports[len(sketch.inputs) :],
            "axis_sizes": self.axis_sizes,
            "axis_levels": self.axis_levels,
            "spans": spans,
        }
        return OpModel(**{**vars(sketch), **on_mesh})
