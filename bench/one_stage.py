"""Options of requests for one stage without recomputation, in benches of other parts."""

from __future__ import annotations

from typing import Any

from meshwright.schema.pipeline import NO_PIPELINE
from meshwright.schema.recompute import NO_RECOMPUTE

ONE_STAGE: dict[str, Any] = {"pipeline": NO_PIPELINE, "recompute": NO_RECOMPUTE}
