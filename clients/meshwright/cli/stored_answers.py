"""Options of a request to a service: which stored plans it accepts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import typer

from meshwright.common.durations import MAX_AGE_S, seconds_of


@dataclass(frozen=True, slots=True)
class StoredAnswers:
    """The stored plans that a request accepts. max_age_s: None for plans of the same build."""

    fresh: bool = False
    max_age_s: float | None = None

    def options(self) -> dict[str, Any]:
        """Keyword arguments of `Client.plan`."""
        if self.fresh:
            return {"search": "fresh"}
        return {} if self.max_age_s is None else {"max_age_s": self.max_age_s}


def stored_answers(*, fresh: bool, max_age: str | None, server: str | None) -> StoredAnswers:
    """The options --fresh and --max-age; raises BadParameter for a wrong one."""
    given = [name for name, is_set in (("--fresh", fresh), ("--max-age", max_age)) if is_set]
    if given and server is None:
        raise typer.BadParameter(
            "is for a service. A search in this process reads no stored plans; remove the option",
            param_hint=given[0],
        )
    if len(given) > 1:
        raise typer.BadParameter("excludes --max-age. Remove one of the two", param_hint="--fresh")
    return StoredAnswers(fresh, None if max_age is None else _seconds(max_age))


def _seconds(max_age: str) -> float:
    value = seconds_of(max_age)
    try:
        seconds = float(str(value))
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= MAX_AGE_S:
        raise typer.BadParameter(
            f"{max_age!r} is not a duration. Use seconds, or a number with s, m, h, d or w, such "
            "as 7d",
            param_hint="--max-age",
        )
    return seconds
