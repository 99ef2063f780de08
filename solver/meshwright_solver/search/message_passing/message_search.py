"""Search over very large cost graphs: bounds by message passing, choices by elimination.

    1. nodes that others decide, leaves and nodes between two others go      contraction.py
    2. messages: a bound, and the few best states of each node               trws.py
    3. the best choice of these states                                       few_states_elimination
    4. the price of memory: step 3, with step 2 at intervals                 memory_price.py
    5. mixes of choices above the limit and within it                        choice_mixing.py
    6. if the best choice takes more memory than the sums (`SearchBudget.over_bytes`): 4 and 5 for a
       limit lowered by the excess, from the present choices

Operations run by classes of nodes and edges where arrays are shared, and are compiled elsewhere.
The search ends when the gap is within the tolerance, no result improves, or the time is over.
"""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor, wait

import numpy as np

from meshwright_solver.common.arrays import FloatArray, IntArray
from meshwright_solver.common.deadline import OutOfTime
from meshwright_solver.search.core.cost_graph import ChoiceCost, CostGraph
from meshwright_solver.search.core.crossover import crossed
from meshwright_solver.search.core.incumbent import Report
from meshwright_solver.search.core.interned_tables import CostWeights
from meshwright_solver.search.core.lifetimes import always_live
from meshwright_solver.search.core.memory_bracket import (
    MemoryBracket,
    PricedChoice,
    PricedStates,
)
from meshwright_solver.search.core.outcome import Outcome, SearchBudget, TableTooLarge
from meshwright_solver.search.core.search_state import SearchState
from meshwright_solver.search.message_passing.choice_mixing import mixed
from meshwright_solver.search.message_passing.contraction import contracted
from meshwright_solver.search.message_passing.few_states_elimination import best_of_few
from meshwright_solver.search.message_passing.flat_tables import FlatTables
from meshwright_solver.search.message_passing.memory_price import bracketed, narrowed
from meshwright_solver.search.message_passing.message_bound import lower_bound
from meshwright_solver.search.message_passing.network import network_of
from meshwright_solver.search.message_passing.state_selection import decoded, few_states
from meshwright_solver.search.message_passing.trws import (
    NetworkArrays,
    links_of,
    no_messages,
    sweep,
)

_FEW_STATES = 12  # measured: so many states of a node hold the best choice after a sweep, 8 do not
_ALL_STATES_ADDITIONS = 30_000_000  # chosen: up to these all states are used, for a best choice
_IDLE_ROUNDS = 6  # chosen: rounds without progress that end a search
_PROGRESS = 0.02  # chosen: of the gap; a smaller change in a round is no progress
# chosen: margins in addition to the excess, of the limit: the next choice differs a little
_MARGINS = (0.0, 0.001, 0.004, 0.016)
_STOP_SECONDS = 0.05  # chosen: between checks for a stop
_ROUNDING = 1e-12  # chosen: relative error of the sums of elimination
_COPIES = 4  # measured: of all distinct tables, in numbers of 8 bytes: two single, two double


def message_search(
    graph: CostGraph,
    budget: SearchBudget,
    report: Report | None = None,
    start: IntArray | None = None,
) -> Outcome:
    """Deterministic unless time runs out. Raises TableTooLarge where all distinct tables together
    exceed the memory for tables.

    Raises LifetimesMatter where lifetimes make a difference.
    """
    always = always_live(graph, "message_passing")
    with ThreadPoolExecutor(max_workers=2) as pool:
        search = _MessageSearch(always, budget, report, start, pool)
        try:
            search.run()
            search.leave_room()
        except OutOfTime:
            search.note_out_of_time()
        return search.so_far()


class _MessageSearch(SearchState):
    def __init__(
        self,
        graph: CostGraph,
        budget: SearchBudget,
        report: Report | None,
        start: IntArray | None,
        pool: ThreadPoolExecutor,
    ) -> None:
        super().__init__(graph, budget, report, start)
        self.limit = graph.memory_limit_bytes
        self._pool = pool
        self._bracket: MemoryBracket[IntArray] | None = None  # until the limit binds

    def run(self) -> None:
        self._prepare()
        line = self._allowed(CostWeights(1.0, 0.0))
        if line is None:
            return
        if line.cost.cost_ns >= self.budget.cutoff_ns:
            self._raise_bound()  # if the bound suffices, no price of memory is needed
            if self._is_over():
                return
        if self.limit is None or line.cost.memory_bytes <= self.limit:
            self._tighten()
        else:
            self._close(MemoryBracket(self.limit, line))

    def leave_room(self) -> None:
        """Lower the limit by the excess memory of the best choice, a few times. The bound remains
        that of the original limit."""
        over, first, limit = self.budget.over_bytes, self.incumbent, self.limit
        if over is None or limit is None:
            return
        incumbent, notes_before = first, len(self.notes)
        try:
            for margin in _MARGINS:
                incumbent = self.incumbent
                missed = over(incumbent.choice) if incumbent.choice is not None else 0.0
                if missed <= 0:
                    break
                self._close_again(incumbent.memory_bytes - missed - margin * limit)
                if self.incumbent.choice is None:
                    break
        finally:
            if self.incumbent.choice is None and incumbent.choice is not None:
                # results for a lower limit do not hold for the original one
                self.incumbent, self.infeasible = incumbent, False
                del self.notes[notes_before:]
            self.incumbent.lower_bound_ns = first.lower_bound_ns

    def _prepare(self) -> None:
        self._network = network = contracted(network_of(self.graph))
        self._check_held()
        self._links = links_of(network)
        self._messages = no_messages(self._links)
        self._numbers = FlatTables(network)
        self._wanted = np.concatenate([network.wanted(), network.wanted_back()])
        ends = np.concatenate([network.tails, network.heads])
        degrees = np.bincount(ends, minlength=len(network.names))
        self._order = np.argsort(-degrees, kind="stable")
        self._most_states = _most_states(self._links)
        self._has_all = bool((self._links.extents <= self._most_states).all())
        self._known_choices: list[IntArray] = []
        self._is_best = False
        self.deadline.check()

    def _check_held(self) -> None:
        network = self._network
        shapes = network.definitions.shapes
        entries = sum(math.prod(shapes[number]) for number in network.wanted())
        most = self.budget.max_held_entries // _COPIES
        if entries > most:
            raise TableTooLarge("all distinct tables together", entries, most)

    def _tighten(self) -> None:
        """Pass messages without a price until the bound stops rising."""
        idle = 0
        while idle < _IDLE_ROUNDS and not self._is_over():
            before = self._gap()
            self._pass_messages()
            self._choose()
            self._best_line()
            self._raise_bound()
            idle = 0 if self._gap() < (1 - _PROGRESS) * before else idle + 1

    def _close_again(self, limit: float) -> None:
        """Search within a lower limit, which the best choice exceeds, from the known lines."""
        incumbent, known = self.incumbent, self._bracket
        assert incumbent.choice is not None
        best = PricedChoice(incumbent.choice, ChoiceCost(incumbent.cost_ns, incumbent.memory_bytes))
        bracket = MemoryBracket(limit, best if known is None else known.over)
        lines = [best, self._line, known.within if known is not None else None]
        for line in lines:
            if line is not None:
                bracket.add(line, self._weights.memory)
        self.limit, self.incumbent = limit, incumbent.with_less(limit)
        if bracket.within is None:
            self._close(bracket)
            return
        price = self._mix(bracket) or bracket.meeting_price()
        bracket.add(self._line_at(price), price)
        self._raise_bound()
        if not self._is_over():
            self._improve(bracket, narrowed(bracket, self._line_at))
        self._bracket = bracket

    def _close(self, bracket: MemoryBracket[IntArray]) -> None:
        """Search within the limit, which the cheapest choice exceeds."""
        if not bracketed(bracket, self._line_at):
            bracket.within = self._allowed(CostWeights(0.0, 1.0), bracket.limit_bytes)
        if bracket.within is None:
            return
        self._improve(bracket, self._mix(bracket) or bracket.meeting_price())

    def _improve(self, bracket: MemoryBracket[IntArray], price: float) -> None:
        """From choices on both sides of the limit: pass messages until the gap is closed."""
        self._bracket = bracket
        idle = 0
        while idle < _IDLE_ROUNDS and not self._is_over():
            before = self._gap()
            self._weigh(CostWeights(1.0, price))
            self._pass_messages()
            self._choose()
            bracket.add(self._best_line(), price)
            self._raise_bound()
            if self._is_over():
                return
            price = narrowed(bracket, self._line_at)
            self._mix(bracket)
            self._cross(bracket)
            idle = 0 if self._gap() < (1 - _PROGRESS) * before else idle + 1

    def _mix(self, bracket: MemoryBracket[IntArray]) -> float:
        """The price at which the choices on both sides of the limit mix; 0 where all parts fit."""
        over, within = (line.choice for line in bracket.pair)
        self._known_choices = [over, within]
        choice, price = mixed(self.graph, within, over, bracket.limit_bytes)
        self.incumbent.offer(choice, "mixed")
        return price

    def _cross(self, bracket: MemoryBracket[IntArray]) -> None:
        """Offer crossovers of the choices on both sides: one up to a node, the other from there."""
        over, within = (line.choice for line in bracket.pair)
        for before, behind in ((over, within), (within, over)):
            choice = crossed(self.graph, before, behind, self.incumbent.cost_ns)
            if choice is not None:
                self.incumbent.offer(choice, "crossed")

    def _allowed(self, weights: CostWeights, limit: float = math.inf) -> PricedStates | None:
        """The best choice at these weights that is allowed and within the limit; None where none is
        found."""
        self._weigh(weights)
        for _ in range(_IDLE_ROUNDS):
            self._pass_messages()
            self._choose()
            line = self._best_line()
            if line.cost.cost_ns < math.inf and line.cost.memory_bytes <= limit:
                return line
            bound = self._bound()
            if bound == math.inf:
                self.prove_infeasible("every choice takes a forbidden state or pair")
                return None
            if weights.cost == 0.0 and bound > limit:
                self.prove_infeasible("every choice takes more memory than the limit")
                return None
        self.notes.append("no choice within the limit was found")
        return None

    def _line_at(self, price: float) -> PricedStates:
        self._weigh(CostWeights(1.0, price))
        return self._best_line()

    def _weigh(self, weights: CostWeights) -> None:
        self.deadline.check()
        self._weights = weights
        self._known: dict[int, FloatArray] = self._network.definitions.at(weights, self._wanted)
        self._numbers.write(self._known, weights)

    def _pass_messages(self) -> None:
        stop = np.zeros(1, dtype=np.int64)
        task = self._pool.submit(sweep, self._links, self._numbers.single, self._messages, stop)
        while wait([task], _STOP_SECONDS).not_done:
            if self.deadline.is_over():
                stop[0] = 1
        task.result()
        self.deadline.check()

    def _choose(self) -> None:
        """Select the few states of each node that a choice may take; known choices come first."""
        candidates = [choice[self._network.names] for choice in self._known_choices]
        if self.incumbent.choice is not None:
            candidates.append(self.incumbent.choice[self._network.names])
        candidates.append(decoded(self._links, self._numbers.single, self._messages))
        candidates.sort(key=self._weighted)
        self._few = few_states(
            self._links,
            self._numbers.single,
            self._messages,
            np.stack(candidates),
            self._most_states,
        )

    def _weighted(self, states: IntArray) -> float:
        links, exact = self._links, self._numbers.exact
        rows = links.tables + states[links.tails] * links.extents[links.heads]
        value = exact[rows + states[links.heads]].sum() + exact[links.vectors + states].sum()
        return float(value)

    def _best_line(self) -> PricedStates:
        """The line of the best choice of few states; notes whether it is the best of all."""
        states, is_free = best_of_few(self._links, self._numbers.exact, self._few, self._order)
        choice = self._network.back(states, self._known)
        self._is_best = is_free and self._has_all
        self._line = PricedChoice(choice, self.incumbent.offer(choice, "elimination"))
        return self._line

    def _bound(self) -> float:
        """A lower bound of all choices at these weights."""
        if not self._is_best:
            return lower_bound(self._links, self._numbers, self._messages, self._pool)
        cost, weights = self._line.cost, self._weights
        if cost.cost_ns == math.inf:
            return math.inf
        value = weights.cost * cost.cost_ns + weights.memory * cost.memory_bytes
        return value - _ROUNDING * abs(value)

    def _raise_bound(self) -> None:
        limit = 0.0 if self.limit is None else self.limit
        self.incumbent.raise_bound(self._bound() - self._weights.memory * limit, "messages")

    def _gap(self) -> float:
        return self.incumbent.cost_ns - self.incumbent.lower_bound_ns

    def _is_over(self) -> bool:
        self.deadline.check()
        return self.is_beaten() or self.incumbent.is_closed()


def _most_states(links: NetworkArrays) -> int:
    """The number of states of each node that a choice may take."""
    most = int(links.extents.max(initial=1))
    return most if len(links.extents) * most**3 <= _ALL_STATES_ADDITIONS else _FEW_STATES
