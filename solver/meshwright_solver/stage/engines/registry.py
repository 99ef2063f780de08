"""The registry of search engines, and the portfolio of engines that a request names.

`auto` runs dynamic programming, and message passing where the tables of dynamic programming would
be too large. Recursive programming supplies a plan where the time ends before either has one.
Every other name is a portfolio of one engine.
"""

from __future__ import annotations

from dataclasses import dataclass

from meshwright_solver.stage.engines.dynamic_programming import DYNAMIC_PROGRAMMING
from meshwright_solver.stage.engines.engine import Engine
from meshwright_solver.stage.engines.exact import EXACT
from meshwright_solver.stage.engines.message_search import MESSAGE_SEARCH
from meshwright_solver.stage.engines.recursive_programming import RECURSIVE_PROGRAMMING
from meshwright_solver.stage.engines.semi_auto import SEMI_AUTO
from meshwright_solver.stage.engines.sharding_propagation import SHARDING_PROPAGATION

ENGINES: dict[str, Engine] = {
    engine.name: engine
    for engine in (
        DYNAMIC_PROGRAMMING,
        MESSAGE_SEARCH,
        EXACT,
        RECURSIVE_PROGRAMMING,
        SHARDING_PROPAGATION,
        SEMI_AUTO,
    )
}


@dataclass(frozen=True, slots=True)
class Portfolio:
    """Engines in the order in which they search a mesh: each if it is too large for those before.

    fallback: supplies a plan on the coarsest mesh where the time may end before any other.
    """

    engines: tuple[Engine, ...]
    fallback: Engine | None = None

    @property
    def first(self) -> Engine:
        return self.engines[0]

    @property
    def sole(self) -> Engine | None:
        """The engine that finds every plan; None if there are several."""
        return self.first if len(self.engines) == 1 else None

    @property
    def decides_choice(self) -> bool:
        """Whether every layout of the whole cost graph competes."""
        return self.first.decides == "choice"


_AUTO = Portfolio((DYNAMIC_PROGRAMMING, MESSAGE_SEARCH), fallback=RECURSIVE_PROGRAMMING)


def portfolio_of(solver: str) -> Portfolio:
    """The engines that `Request.solver` names."""
    return _AUTO if solver == "auto" else Portfolio((ENGINES[solver],))
