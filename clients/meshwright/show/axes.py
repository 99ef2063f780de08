"""Short names for axes that go together: a whole level by its name, all axes as `all`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from meshwright.schema import Layout, Mesh

RUN = re.compile(r"(?:@\w+){2,}")
ALL = "all"


class AxisNames:
    """The short names on one mesh."""

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
        """What the short names mean, or nothing where there are none."""
        if len(self._all) < 2:
            return ""
        levels = (f"{level} = {' '.join(axes)}" for level, axes in self._levels.items())
        return f" ({', '.join((*levels, f'{ALL} = {chr(32).join(self._all)}'))})"

    def short(self, axes: Iterable[str]) -> tuple[str, ...]:
        """The axes, the ones that make up a level or the mesh under one name."""
        found = tuple(axes)
        if len(found) > 1 and found == self._all:
            return (ALL,)
        for level, members in self._levels.items():
            for start in range(len(found) - len(members) + 1):
                if found[start : start + len(members)] == members:
                    found = (*found[:start], level, *found[start + len(members) :])
                    break
        return found

    def strategy(
        self,
        strategy: Mapping[str, Iterable[str]],
        partial: Iterable[str] = (),
        followers: Iterable[str] = (),
    ) -> str:
        """A strategy as text, e.g. `b@node n@gpu`; `?gpu`: there what may follow does.

        In the order of names, as a stored plan has it.
        """
        own = sorted(strategy.items())
        parts = [f"{f}@{'@'.join(self.short(axes))}" for f, axes in own if axes]
        parts += [f"+{axis}" for axis in self.short(partial)]
        parts += [f"?{axis}" for axis in self.short(followers)]
        return " ".join(parts) or "replicated"

    def layout(self, layout: Layout) -> str:
        """A layout as text, e.g. `[64@node, 8192, 4096@gpu]`."""

        def shorter(run: re.Match[str]) -> str:
            return "".join(f"@{name}" for name in self.short(run[0][1:].split("@")))

        return RUN.sub(shorter, str(layout))
