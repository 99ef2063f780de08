"""Sweeps at a service: requested, followed, listed, cancelled, deleted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from meshwright.client.exchange import ApiCall, Exchange, asked, deleted, got, posted, segment, sent
from meshwright.client.jobs import WAIT_S
from meshwright.client.method_descriptor import Shelf
from meshwright.schema import Calibration, Graph
from meshwright.schema.sweep import Sweep, SweepResult, SweepRow

OnRows = Callable[[Sequence[SweepRow]], None]
RUNNING = "running"


def sweep(
    graph: Graph | str,
    points: Sweep,
    *,
    calibration: Calibration | str | None = None,
    on_rows: OnRows | None = None,
) -> Exchange[SweepResult]:
    """Request a sweep, and wait until every point has an answer or the sweep is cancelled.

    Topologies of the sweep may be ids of the service. The same sweep goes on where an earlier one
    was cancelled or failed. on_rows: called with all rows whenever some have changed.
    """
    status = yield from begin_sweep(graph, points, calibration=calibration)
    return (yield from _followed(status, on_rows))


def follow_sweep(id_: str, *, on_rows: OnRows | None = None) -> Exchange[SweepResult]:
    """Wait until every point of a sweep has an answer or the sweep is cancelled.

    on_rows: called with all rows whenever some have changed.
    """
    return (yield from _followed((yield from get_sweep(id_)), on_rows))


def _followed(status: dict[str, Any], on_rows: OnRows | None) -> Exchange[SweepResult]:
    while True:
        rows = tuple(SweepRow.model_validate(row) for row in status["rows"])
        if on_rows is not None:
            on_rows(rows)
        if status["state"] != RUNNING:
            return _result(status, rows)
        status = yield from get_sweep(status["id"], wait_s=WAIT_S)


def begin_sweep(
    graph: Graph | str, points: Sweep, *, calibration: Calibration | str | None = None
) -> Exchange[dict[str, Any]]:
    """Request a sweep without waiting: its id, its state and its rows."""
    body: dict[str, Any] = {**points.to_dict(), "graph": sent(graph)}
    body |= {} if calibration is None else {"calibration": sent(calibration)}
    return (yield from asked(ApiCall("POST", "/v1/sweeps", {}, body)))


def get_sweep(id_: str, *, wait_s: float = 0) -> Exchange[dict[str, Any]]:
    """A sweep with its rows; with wait_s, after one more point has an answer or after so long."""
    return (yield from got(f"/v1/sweeps/{segment(id_)}", wait=wait_s or None))


def sweeps() -> Shelf:
    """Entries of the sweeps, the newest first."""
    return Shelf("sweeps")


def cancel_sweep(id_: str) -> Exchange[dict[str, Any]]:
    """Cancel the searches that only this sweep waits for; the sweep as it then is."""
    return (yield from posted(f"/v1/sweeps/{segment(id_)}/cancel"))


def delete_sweep(id_: str) -> Exchange[None]:
    """Delete a sweep. Its jobs and plans stay."""
    return (yield from deleted(f"/v1/sweeps/{segment(id_)}"))


def _result(status: dict[str, Any], rows: tuple[SweepRow, ...]) -> SweepResult:
    return SweepResult(
        sweep=Sweep.from_dict(status["sweep"]),
        graph=status["graph"],
        graph_name=status["graph_name"],
        rows=rows,
    )
