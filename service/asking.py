"""What to ask for, to have what a search looked at planned to the end."""

from __future__ import annotations

import re
from typing import Any

PIPELINE = re.compile(
    r"(?P<schedule>\w+), (?P<ranks>\d+) pipeline ranks(?: of (?P<stages>\d+) stages)?, "
    r"(?P<microbatches>\d+) microbatches"
)
RECOMPUTE = re.compile(r"recompute (?P<policy>\w+), (?P<microbatches>\d+) microbatches")
COPIES = re.compile(r"copies (?P<copies>\d+)")


def asking_for(configuration: str) -> dict[str, Any] | None:
    """The change of a plan's request, as a JSON Merge Patch (RFC 7396), of a Considered's
    configuration; None where a request cannot say it, as that stages lie on certain groups."""
    if found := PIPELINE.fullmatch(configuration):
        pipeline: dict[str, Any] = {"ranks": int(found["ranks"]), "schedule": found["schedule"]}
        if found["stages"]:
            pipeline["stages_per_rank"] = int(found["stages"])
        return {"pipeline": pipeline, "setup": {"microbatches": int(found["microbatches"])}}
    if found := RECOMPUTE.fullmatch(configuration):
        return {
            "recompute": {"policy": found["policy"]},
            "setup": {"microbatches": int(found["microbatches"])},
        }
    if found := COPIES.fullmatch(configuration):
        return {"setup": {"copies": int(found["copies"])}}
    return None
