"""Search over very large cost graphs: bounds by message passing, choices by elimination.

    1. nodes that others decide, leaves and what lies between two nodes go   messages/contraction.py
    2. messages: a bound, and which few states of each node are any good     messages/sweeps.py
    3. the best choice of those few                                         messages/elimination.py
    4. the price of memory, by 3 with 2 now and then                            messages/prices.py
    5. choices above the limit and within it, mixed                             messages/mixing.py
    6. where the best choice takes more than sums know (`Budget.over_bytes`): 4 and 5 for a limit
       that is lower by so much, from where they are

Work is by classes of nodes and edges wherever arrays are shared, and compiled where it is not.
Ends when the gap is within the tolerance, nothing gets better any more, or the time is over.
"""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor, wait

import numpy as np

from solver.cost_graph import ChoiceCost, CostGraph, FloatArray, IntArray
from solver.crossing import crossed
from solver.deadline import OutOfTime
from solver.elimination.eliminator import TableTooLarge
from solver.incumbent import Report
from solver.lagrangian_search import lagrangian_search
from solver.lifetimes import without_lifetimes
from solver.messages.bound import lower_bound
from solver.messages.contraction import contracted
from solver.messages.definitions import Weights
from solver.messages.elimination import best_of_few
from solver.messages.mixing import mixed
from solver.messages.network import network_of
from solver.messages.numbers import Numbers
from solver.messages.prices import Bracket, Line, bracketed, narrowed
from solver.messages.selection import decoded, few_states
from solver.messages.sweeps import Links, links_of, no_messages, sweep
from solver.outcome import Budget, Outcome
from solver.search_state import SearchState

_KEPT = 12  # measured: states of a node that hold the best choice after a sweep, 8 do not
_ALL_KEPT = 30_000_000  # chosen: additions with which all states are kept, so that a choice is best
_IDLE_ROUNDS = 6  # chosen: rounds without progress that end a search
_PROGRESS = 0.02  # chosen: of the gap; less in a round is none
# chosen: left beside what a choice took too much, of the limit: the next one differs a little
_MARGINS = (0.0, 0.001, 0.004, 0.016)
_STOP_SECONDS = 0.05  # chosen: between looks at whether to stop
_ROUNDING = 1e-12  # chosen: of what elimination adds up
_COPIES = 4  # measured: of all distinct tables, in numbers of 8 bytes: two single, two double


def message_search(
    graph: CostGraph,
    budget: Budget,
    report: Report | None = None,
    start: IntArray | None = None,
) -> Outcome:
    """Deterministic where time does not cut it. Raises TableTooLarge where all distinct tables
    together are too large to be held.

    Where lifetimes make a difference the search is lagrangian_search.
    """
    always = without_lifetimes(graph)
    if always is None:
        return lagrangian_search(graph, budget, report, start)
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
        budget: Budget,
        report: Report | None,
        start: IntArray | None,
        pool: ThreadPoolExecutor,
    ) -> None:
        super().__init__(graph, budget, report, start)
        self.limit = graph.memory_limit_bytes
        self._pool = pool
        self._bracket: Bracket | None = None  # of the limit, where that was not kept for nothing

    def run(self) -> None:
        self._prepare()
        line = self._allowed(Weights(1.0, 0.0))
        if line is None:
            return
        if line.found.cost_ns >= self.budget.cutoff_ns:
            self._raise_bound()  # no price of memory is needed where this is enough
            if self._is_over():
                return
        if self.limit is None or line.found.memory_bytes <= self.limit:
            self._tighten()
        else:
            self._close(Bracket(self.limit, line))

    def leave_room(self) -> None:
        """Lower the limit by what the best choice takes too much, a few times. The bound stays that
        of the limit there was."""
        over, first, limit = self.budget.over_bytes, self.incumbent, self.limit
        if over is None or limit is None:
            return
        own, said = first, len(self.notes)
        try:
            for margin in _MARGINS:
                own = self.incumbent
                missed = over(own.choice) if own.choice is not None else 0.0
                if missed <= 0:
                    break
                self._close_again(own.memory_bytes - missed - margin * limit)
                if self.incumbent.choice is None:
                    break
        finally:
            if self.incumbent.choice is None and own.choice is not None:
                # what holds of a lower limit is not said of the one there was
                self.incumbent, self.infeasible = own, False
                del self.notes[said:]
            self.incumbent.lower_bound_ns = first.lower_bound_ns

    def _prepare(self) -> None:
        self._network = network = contracted(network_of(self.graph))
        self._check_held()
        self._links = links_of(network)
        self._messages = no_messages(self._links)
        self._numbers = Numbers(network)
        self._wanted = np.concatenate([network.wanted(), network.wanted_back()])
        ends = np.concatenate([network.tails, network.heads])
        degrees = np.bincount(ends, minlength=len(network.names))
        self._order = np.argsort(-degrees, kind="stable")
        self._kept = _kept(self._links)
        self._has_all = bool((self._links.extents <= self._kept).all())
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
        """Without a price: messages until the bound is as high as it gets."""
        idle = 0
        while idle < _IDLE_ROUNDS and not self._is_over():
            before = self._gap()
            self._pass_messages()
            self._choose()
            self._judged()
            self._raise_bound()
            idle = 0 if self._gap() < (1 - _PROGRESS) * before else idle + 1

    def _close_again(self, limit: float) -> None:
        """Keep a limit that the best choice does not, from what is known of higher ones."""
        own, known = self.incumbent, self._bracket
        assert own.choice is not None
        best = Line(own.choice, ChoiceCost(own.cost_ns, own.memory_bytes))
        bracket = Bracket(limit, best if known is None else known.above)
        lines = [best, self._line, known.within if known is not None else None]
        for line in lines:
            if line is not None:
                bracket.add(line, self._weights.price)
        self.limit, self.incumbent = limit, own.with_less(limit)
        if bracket.within is None:
            self._close(bracket)
            return
        price = self._mix(bracket) or bracket.meet()
        bracket.add(self._line_at(price), price)
        self._raise_bound()
        if not self._is_over():
            self._improve(bracket, narrowed(bracket, self._line_at))
        self._bracket = bracket

    def _close(self, bracket: Bracket) -> None:
        """Keep the limit, which the cheapest choice does not."""
        if not bracketed(bracket, self._line_at):
            bracket.within = self._allowed(Weights(0.0, 1.0), bracket.limit)
        if bracket.within is None:
            return
        self._improve(bracket, self._mix(bracket) or bracket.meet())

    def _improve(self, bracket: Bracket, price: float) -> None:
        """From choices on either side of the limit: messages until the bound is close enough."""
        self._bracket = bracket
        idle = 0
        while idle < _IDLE_ROUNDS and not self._is_over():
            before = self._gap()
            self._weigh(Weights(1.0, price))
            self._pass_messages()
            self._choose()
            bracket.add(self._judged(), price)
            self._raise_bound()
            if self._is_over():
                return
            price = narrowed(bracket, self._line_at)
            self._mix(bracket)
            self._cross(bracket)
            idle = 0 if self._gap() < (1 - _PROGRESS) * before else idle + 1

    def _mix(self, bracket: Bracket) -> float:
        """The price at which the choices on either side of the limit mix; 0 where all fits."""
        assert bracket.within is not None
        self._known_choices = [bracket.above.choice, bracket.within.choice]
        found, price = mixed(self.graph, bracket.within.choice, bracket.above.choice, bracket.limit)
        self.incumbent.offer(found, "mixed")
        return price

    def _cross(self, bracket: Bracket) -> None:
        """Where the choices differ all over: one up to some node, the other from there."""
        assert bracket.within is not None
        two = bracket.above.choice, bracket.within.choice
        for before, behind in (two, two[::-1]):
            found = crossed(self.graph, before, behind, self.incumbent.cost_ns)
            if found is not None:
                self.incumbent.offer(found, "crossed")

    def _allowed(self, weights: Weights, limit: float = math.inf) -> Line | None:
        """The best choice found at these weights that takes nothing forbidden and no more memory;
        None where there is none, or none is found."""
        self._weigh(weights)
        for _ in range(_IDLE_ROUNDS):
            self._pass_messages()
            self._choose()
            line = self._judged()
            if line.found.cost_ns < math.inf and line.found.memory_bytes <= limit:
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

    def _line_at(self, price: float) -> Line:
        self._weigh(Weights(1.0, price))
        return self._judged()

    def _weigh(self, weights: Weights) -> None:
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
        """Which states of each node a choice is made of: the best choice at hand comes first."""
        hands = [choice[self._network.names] for choice in self._known_choices]
        if self.incumbent.choice is not None:
            hands.append(self.incumbent.choice[self._network.names])
        hands.append(decoded(self._links, self._numbers.single, self._messages))
        hands.sort(key=self._weighted)
        self._few = few_states(
            self._links, self._numbers.single, self._messages, np.stack(hands), self._kept
        )

    def _weighted(self, states: IntArray) -> float:
        links, exact = self._links, self._numbers.exact
        rows = links.tables + states[links.tails] * links.extents[links.heads]
        found = exact[rows + states[links.heads]].sum() + exact[links.vectors + states].sum()
        return float(found)

    def _judged(self) -> Line:
        """The best choice of few, and whether it is the best of all."""
        states, is_free = best_of_few(self._links, self._numbers.exact, self._few, self._order)
        choice = self._network.back(states, self._known)
        self._is_best = is_free and self._has_all
        self._line = Line(choice, self.incumbent.offer(choice, "elimination"))
        return self._line

    def _bound(self) -> float:
        """Of all choices at these weights."""
        if not self._is_best:
            return lower_bound(self._links, self._numbers, self._messages, self._pool)
        found, weights = self._line.found, self._weights
        if found.cost_ns == math.inf:
            return math.inf
        value = weights.cost * found.cost_ns + weights.price * found.memory_bytes
        return value - _ROUNDING * abs(value)

    def _raise_bound(self) -> None:
        limit = 0.0 if self.limit is None else self.limit
        self.incumbent.raise_bound(self._bound() - self._weights.price * limit, "messages")

    def _gap(self) -> float:
        return self.incumbent.cost_ns - self.incumbent.lower_bound_ns

    def _is_over(self) -> bool:
        self.deadline.check()
        return self.is_beaten() or self.incumbent.is_closed()


def _kept(links: Links) -> int:
    """States of each node that a choice is made of."""
    most = int(links.extents.max(initial=1))
    return most if len(links.extents) * most**3 <= _ALL_KEPT else _KEPT
