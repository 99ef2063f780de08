"""Encoded documents: the stored form of a document, which another process can create.

Encoding or parsing a plan of a large graph takes seconds. The search process encodes the plan and
its views; the worker stores them without parsing.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from meshwright.reports.stated_options import stated_options
from meshwright.schema import Document, Plan, Setup
from meshwright.schema.canonical import canonical_json, digest_of_text
from meshwright.schema.cost_graph import CostGraphFile
from meshwright.schema.json_writer import written_canonically
from meshwright.schema.overview import PlanWarning
from meshwright.schema.plan_figures import PlanFigures
from meshwright_service.common.zstd import pack
from meshwright_service.store.summaries import plan_numbers, plan_summary, summary_of

Parts = Mapping[int, bytes]  # packed, by number
FIELDS = ("id", "kind", "name", "content_bytes", "summary")  # of a message, beside the body


@dataclass(frozen=True, slots=True)
class StoredDocument:
    """A document in stored form. content_bytes: length of its JSON. body: the JSON, compressed."""

    id: str
    kind: str
    name: str
    content_bytes: int
    summary: dict[str, Any]
    body: bytes

    def to_message(self) -> dict[str, Any]:
        """A JSON value; `from_message` reads it."""
        fields = {name: getattr(self, name) for name in FIELDS}
        return {**fields, "body": b64encode(self.body).decode()}

    @classmethod
    def from_message(cls, message: Mapping[str, Any]) -> StoredDocument:
        """Read a value of `to_message`."""
        fields = {name: message[name] for name in FIELDS}
        return cls(body=b64decode(message["body"]), **fields)


@dataclass(frozen=True, slots=True)
class StoredPlan:
    """A plan in stored form.

    columns: of its row in the plan index. derived: by name, see
    meshwright_service.store.derived_documents.
    """

    document: StoredDocument
    columns: dict[str, Any]
    derived: Mapping[str, Parts] = field(default_factory=dict)

    @property
    def id(self) -> str:
        return self.document.id

    @property
    def outcome(self) -> str:
        return str(self.columns["outcome"])

    @property
    def step_ns(self) -> float:
        return float(self.columns["summary"]["step_ns"])

    def to_message(self) -> dict[str, Any]:
        """A JSON value; `from_message` reads it."""
        return {
            **self.document.to_message(),
            "columns": self.columns,
            "derived": {
                name: {str(part): b64encode(body).decode() for part, body in parts.items()}
                for name, parts in self.derived.items()
            },
        }

    @classmethod
    def from_message(cls, message: Mapping[str, Any]) -> StoredPlan:
        """Read a value of `to_message`."""
        derived = {
            name: {int(part): b64decode(body) for part, body in parts.items()}
            for name, parts in message["derived"].items()
        }
        return cls(StoredDocument.from_message(message), message["columns"], derived)


def stored(document: Document) -> StoredDocument:
    """Encode a document."""
    text = written_canonically(document)
    body = text.encode()
    document_with_name = document.problem if isinstance(document, CostGraphFile) else document
    return StoredDocument(
        id=digest_of_text(document.prefix, text),
        kind=document.prefix,
        name=getattr(document_with_name, "name", ""),
        content_bytes=len(body),
        summary=summary_of(document),
        body=pack(body),
    )


def stored_plan(
    plan: Plan,
    derived: Mapping[str, Parts] | None = None,
    warnings: Sequence[PlanWarning] = (),
    figures: PlanFigures | None = None,
    setup: Setup | None = None,
) -> StoredPlan:
    """Encode a plan and the columns of its row in the plan index.

    warnings, figures: of the plan for its request; the list of plans has them. setup: of the
    request; its options are unknown without it.
    """
    columns = {
        "graph": plan.graph,
        "topology": plan.topology,
        "summary": plan_summary(plan, warnings, figures),
        "model": plan.name,
        "outcome": plan.search.outcome,
        "solver": plan.wishes.solver,
        "calibration": plan.calibration,
        "target": plan.wishes.target or "",
        "options": None if setup is None else canonical_json(stated_options(plan, setup)),
        **plan_numbers(plan, figures),
    }
    return StoredPlan(stored(plan), columns, derived or {})
