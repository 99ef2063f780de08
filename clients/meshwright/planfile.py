"""Plan files: a plan with the documents that it was made for."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field

from meshwright.common.files import read_text, write_whole
from meshwright.common.units import show_bytes
from meshwright.schema import (
    Calibration,
    Certificate,
    Document,
    Graph,
    InvalidInput,
    Plan,
    PlanError,
    Setup,
    Topology,
)
from meshwright.schema.html_table import html_table


class PlanFile(Document):
    """A plan with the documents that it was made for.

    The constructor raises PlanError if a document is not the one that the plan names.
    """

    prefix: ClassVar[str] = "planfile"
    error: ClassVar[type[InvalidInput]] = PlanError

    schema_version: Literal[1] = Field(default=1, description="The version of the schema.")
    plan: Plan = Field(description="The plan.")
    graph: Graph | None = Field(
        default=None, description="The operator graph of the plan, if the file holds it."
    )
    topology: Topology | None = Field(
        default=None, description="The topology of the plan, if the file holds it."
    )
    setup: Setup | None = Field(
        default=None, description="The training setup of the plan, if the file holds it."
    )
    calibration: Calibration | None = Field(
        default=None,
        description="The calibration of the plan. None: the planner's own calibration.",
    )
    certificate: Certificate | None = Field(
        default=None, description="The result of executing the plan, if the plan was executed."
    )
    seconds: tuple[float, ...] = Field(
        default=(),
        description="The times in seconds after the start of the search at which each entry of "
        "the plan's `search.history` was found. Empty if unknown.",
    )

    def model_post_init(self, _: object) -> None:
        """Check that the documents are those that the plan names."""
        for field in ("graph", "topology", "setup"):
            document = getattr(self, field)
            if document is not None and document.id != getattr(self.plan, field):
                raise PlanError(
                    f"the plan was made for the {field} {getattr(self.plan, field)}, the file "
                    f"holds {document.id}",
                    pointer=f"/{field}",
                )
        if self.certificate is not None and self.certificate.plan != self.plan.id:
            raise PlanError(
                f"the certificate is of the plan {self.certificate.plan}, the file holds "
                f"{self.plan.id}",
                pointer="/certificate/plan",
            )

    def _repr_fields(self) -> Iterator[tuple[str, object]]:
        yield from self.plan._repr_fields()
        if self.plan.wishes.target is not None:
            yield "target", self.plan.wishes.target
        if self.plan.notes:
            yield "note", self.plan.notes[0]

    def _repr_html_(self) -> str:
        """The table that notebooks show."""
        plan, memory = self.plan, self.plan.cost.memory_bytes
        rows = {
            "plan": plan.id,
            "target": plan.wishes.target or "any strategy",
            "step": f"{plan.cost.step_ns / 1e6:,.1f} ms, predicted",
            "memory of a device": f"{show_bytes(memory.total)} of {show_bytes(memory.capacity)}",
            "microbatches": f"{plan.microbatches}",
            "outcome of the search": plan.search.outcome,
        }
        return html_table(type(self).__name__, rows.items(), plan.notes)

    def write(self, path: Path) -> None:
        """Write the file atomically."""
        write_whole(path, self.to_json() + "\n")


def read_plan(path: Path) -> PlanFile:
    """The plan in a file, with or without its documents."""
    text = read_text(path)
    try:
        bare = "stages" in json.loads(text)
    except (ValueError, TypeError, RecursionError):
        bare = False  # PlanFile raises the error
    return PlanFile(plan=Plan.from_json(text)) if bare else PlanFile.from_json(text)
