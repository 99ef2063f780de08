"""One line that says how far the search is."""

from __future__ import annotations

from types import TracebackType

from rich import progress as rich_progress
from rich.text import Text
from typing_extensions import Self

from meshwright.cli.consoles import notices
from meshwright.common.stop_signal import StopSignal
from meshwright.common.units import show_ns, show_share
from meshwright.schema import Progress


class ProgressLine:
    """Shows the progress on standard error while it is entered; nothing where that is no terminal.

    Call it with every Progress of a planner, or `show` what another search does. stop: the line
    says that the search is asked to end.
    """

    def __init__(self, stop: StopSignal | None = None) -> None:
        console = notices()
        self._bar = rich_progress.Progress(
            rich_progress.SpinnerColumn(),
            _Phase(stop),
            rich_progress.BarColumn(bar_width=24),
            rich_progress.TextColumn("{task.fields[found]}"),
            rich_progress.TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task("waiting", total=None, found="")

    def __enter__(self) -> Self:
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
        self.show(progress.phase, progress.done, progress.total or None, found=found_text(progress))

    def show(self, phase: str, done: int = 0, total: int | None = None, *, found: str = "") -> None:
        """phase: what runs. done, total: steps, where their number is known. found: so far."""
        self._bar.update(self._task, description=phase, completed=done, total=total, found=found)


class _Phase(rich_progress.ProgressColumn):
    """The phase, or that the search is asked to end.

    It looks at the signal while it is drawn: a handler may touch no lock of the console's.
    """

    def __init__(self, stop: StopSignal | None) -> None:
        super().__init__()
        self._stop = stop

    def render(self, task: rich_progress.Task) -> Text:
        if self._stop is not None and self._stop.asked:
            return Text("ending the search; Ctrl-C again ends at once", style="yellow")
        return Text(task.description)


def found_text(progress: Progress) -> str:
    """The best cost and the bound, as far as they are known, and how far they lie apart."""
    best, bound = progress.incumbent_ns, progress.lower_bound_ns
    said = [] if best is None else [f"best {show_ns(best)}"]
    if bound is not None and bound > 0:
        said.append(f"bound {show_ns(bound)}")
        if best is not None:
            said.append(f"gap {show_share(max(0.0, 1 - bound / best))}")
    return ", ".join(said)
