"""What an op does, whatever it and its tensors are called: equal looks, equal ops."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

from meshwright.schema import Op
from meshwright.schema.canonical import canonical_json


@dataclass(slots=True)
class OpLooks:
    """Kind, attributes, own rule and own strategy of ops; equal attributes are written once."""

    _attrs: dict[str, str] = field(default_factory=dict)  # as Python writes them -> canonically

    def of(self, op: Op) -> tuple[Hashable, ...]:
        written = repr(op.attrs) if op.attrs else ""
        if written and written not in self._attrs:
            self._attrs[written] = canonical_json(op.attrs)
        return (
            op.kind,
            self._attrs.get(written, ""),
            op.rule.model_dump_json() if op.rule is not None else "",
            str(op.strategy) if op.strategy else "",
        )
