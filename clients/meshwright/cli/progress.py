"""One line that says how far the search is."""

from __future__ import annotations

from types import TracebackType

from rich import progress as rich_progress

from meshwright.cli.consoles import notices
from meshwright.schema import Progress
from meshwright.units import show_ns, show_share


class ProgressLine:
    """Shows the progress on standard error while it is entered; nothing where that is no terminal.

    Call it with every Progress.
    """

    def __init__(self) -> None:
        console = notices()
        self._bar = rich_progress.Progress(
            rich_progress.SpinnerColumn(),
            rich_progress.TextColumn("{task.description}"),
            rich_progress.BarColumn(bar_width=24),
            rich_progress.TextColumn("{task.fields[found]}"),
            rich_progress.TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task("waiting", total=None, found="")

    def __enter__(self) -> ProgressLine:
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.stop()

    def __call__(self, progress: Progress) -> None:
        self._bar.update(
            self._task,
            description=progress.phase,
            completed=progress.done,
            total=progress.total or None,
            found=_found(progress),
        )


def _found(progress: Progress) -> str:
    best, bound = progress.incumbent_ns, progress.lower_bound_ns
    if best is None:
        return ""
    if not bound:
        return f"best {show_ns(best)}"
    return f"best {show_ns(best)}, gap {show_share(max(0.0, best / bound - 1))}"
