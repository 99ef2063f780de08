"""Op signatures, without the names of op and tensors: equal signatures, equal ops."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

from meshwright.schema import Op
from meshwright.schema.canonical import canonical_json


@dataclass(slots=True)
class OpLooks:
    """Signatures of ops: kind, attributes, own rule and own strategy.

    Canonical JSON is cached, since many ops have equal attributes.
    """

    _attrs: dict[str, str] = field(default_factory=dict)  # repr of attributes -> canonical JSON

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
