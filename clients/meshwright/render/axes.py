"""Short names for sets of axes: the level's name for all its axes, `all` for the whole mesh."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from meshwright.schema import Layout, Mesh

RUN = re.compile(r"(?:@\w+){2,}")
ALL = "all"


class AxisNames:
    """The short names for the axes of one mesh."""

    def __init__(self, mesh: Mesh) -> None:
        self._all = tuple(str(axis.name) for axis in mesh.axes)
        levels: dict[str, tuple[str, ...]] = {}
        for axis in mesh.axes:
            levels[axis.level] = (*levels.get(axis.level, ()), str(axis.name))
        self._levels = {
            level: axes
            for level, axes in levels.items()
            if len(axes) > 1 and level not in self._all
        }

    @property
    def legend(self) -> str:
        """The meanings of the short names; empty where there are none."""
        if len(self._all) < 2:
            return ""
        levels = (f"{level} = {' '.join(axes)}" for level, axes in self._levels.items())
        return f" ({', '.join((*levels, f'{ALL} = {chr(32).join(self._all)}'))})"

    def short(self, axes: Iterable[str]) -> tuple[str, ...]:
        """The axes, with the axes of a whole level or mesh replaced by one name."""
        names = tuple(axes)
        if len(names) > 1 and names == self._all:
            return (ALL,)
        for level, members in self._levels.items():
            for start in range(len(names) - len(members) + 1):
                if names[start : start + len(members)] == members:
                    names = (*names[:start], level, *names[start + len(members) :])
                    break
        return names

    def strategy(
        self,
        strategy: Mapping[str, Iterable[str]],
        partial: Iterable[str] = (),
        followers: Iterable[str] = (),
    ) -> str:
        """A strategy as text, such as `b@node n@gpu`, in the order of factor names.

        `?gpu` means that optional followers are sharded over `gpu` too; `+gpu` marks partial sums.
        """
        factors = sorted(strategy.items())
        parts = [f"{f}@{'@'.join(self.short(axes))}" for f, axes in factors if axes]
        parts += [f"+{axis}" for axis in self.short(partial)]
        parts += [f"?{axis}" for axis in self.short(followers)]
        return " ".join(parts) or "replicated"

    def layout(self, layout: Layout) -> str:
        """A layout as text, such as `[64@node, 8192, 4096@gpu]`."""

        def replacement(run: re.Match[str]) -> str:
            return "".join(f"@{name}" for name in self.short(run[0][1:].split("@")))

        return RUN.sub(replacement, str(layout))
