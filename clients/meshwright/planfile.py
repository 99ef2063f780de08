"""A plan file: a plan with the documents it is about, so that it can be read by itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import ClassVar, Literal

from meshwright.files import read_text, write_whole
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


class PlanFile(Document):
    """A plan and what was asked. Raises PlanError where they do not belong together.

    calibration: None = the planner's own. certificate: what executing the plan showed. seconds: how
    long after the start of the search each entry of the plan's `search.history` was found.
    """

    prefix: ClassVar[str] = "planfile"
    error: ClassVar[type[InvalidInput]] = PlanError

    schema_version: Literal[1] = 1
    plan: Plan
    graph: Graph | None = None
    topology: Topology | None = None
    setup: Setup | None = None
    calibration: Calibration | None = None
    certificate: Certificate | None = None
    seconds: tuple[float, ...] = ()

    def model_post_init(self, _: object) -> None:
        """Each document must be the one that the plan names, the certificate the plan's."""
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

    def write(self, path: Path) -> None:
        """Write the file, whole or not at all."""
        write_whole(path, self.to_json() + "\n")


def read_plan(path: Path) -> PlanFile:
    """The plan in a file, with or without the documents it is about."""
    text = read_text(path)
    try:
        bare = "stages" in json.loads(text)
    except (ValueError, TypeError, RecursionError):
        bare = False  # PlanFile says what is wrong
    return PlanFile(plan=Plan.from_json(text)) if bare else PlanFile.from_json(text)
