"""One descent by block moves, which adapts block and table sizes and tracks binding moments."""

from __future__ import annotations

import math

import numpy as np

from meshwright_solver.common.arrays import FloatArray, IntArray
from meshwright_solver.search.lagrangian.block_moves import BlockLimits, improve
from meshwright_solver.search.lagrangian.block_solver import held_tables
from meshwright_solver.search.lagrangian.memory_profile import (
    ActiveMoments,
    cost_of,
    peaks,
    profile_of,
)
from meshwright_solver.search.lagrangian.model import PairwiseModel
from meshwright_solver.search.lagrangian.reductions import adjacency

_ROOM = 4_000_000  # chosen: entries of all messages of one elimination; 40 MB
_LARGEST_BLOCK = 8192  # chosen: 8 MB of neighbour bits
_SIZES = (30, 100, 300, 1000, _LARGEST_BLOCK)  # chosen
_ENTRIES = (300, 3000, 30_000)  # chosen
_QUOTA = 3e7  # chosen: additions between two measurements of the gain; 0.05 s
_FORGETTING = 0.9  # chosen
_CURIOSITY = 0.25  # chosen: share of moves whose size is drawn without regard to gains
_NEAR_LIMIT = 0.97  # chosen: moments this near are active from the start
_MOST_PRICED = 400  # chosen: moments with separate prices
_FIRST_RISE = 0.002  # chosen: of the mean price of a byte


class Descent:
    """states: the best choice since `origin`. A block move is accepted if no moment exceeds the
    limit or, as long as the start exceeds it, if fewer bytes do.
    """

    def __init__(
        self, model: PairwiseModel, memory_limit: float, states: IntArray, seed: int
    ) -> None:
        self.model = model
        self.limit = memory_limit
        self.states = states.copy()
        self.origin = self.states
        self._adjacency = adjacency(model)
        self._held = held_tables(model, _ROOM)
        self._choices = np.empty(_ROOM, dtype=np.int16)
        self._random = np.random.default_rng(seed)
        self._prices = np.zeros(model.moments)
        live = int((model.extents > 1).sum())
        sizes = sorted({min(size, live) for size in _SIZES})
        # a tree needs tables of one node's states
        most_states = float(np.quantile(model.extents, 0.99)) if model.nodes else 1.0
        largest = sorted({max(entries, int(most_states)) for entries in _ENTRIES})
        self._kinds = [(size, entries) for size in sizes for entries in largest]
        self._gains = np.zeros(len(self._kinds))
        self._works = np.full(len(self._kinds), 1.0)
        self._active = ActiveMoments.of(model, peaks(profile_of(model, states), -math.inf))
        self._watch(profile_of(model, states))
        self.rank = self.rank_of(self.states)

    @property
    def is_within(self) -> bool:
        return self.rank[0] == 0.0

    @property
    def cost(self) -> float:
        return self.rank[1]

    def restart(self, states: IntArray) -> None:
        self.states = states.copy()
        self.origin = self.states
        self.rank = self.rank_of(states)
        self._watch(profile_of(self.model, states))

    def set_prices(self, prices: FloatArray) -> None:
        self._prices = prices
        dearest = np.argsort(-prices, kind="stable")[:_MOST_PRICED]
        self._active.add(dearest[prices[dearest] > 0])

    def advance(self, work: float, aim: float, stop: IntArray) -> None:
        """Block moves for about this many additions. aim: not used."""
        del aim
        done = 0.0
        while done < work and stop[0] == 0:
            kind = self._drawn_kind()
            before = self.rank
            spent = self._moves(kind, min(_QUOTA, work - done), stop)
            done += spent
            gain = max(before[1] - self.rank[1], 0.0) if before[0] == 0.0 else 0.0
            self._gains *= _FORGETTING
            self._works *= _FORGETTING
            self._gains[kind] += gain
            self._works[kind] += spent

    def _moves(self, kind: int, work: float, stop: IntArray) -> float:
        size, entries = self._kinds[kind]
        active = self._active
        trial = self.states.copy()
        unit = _FIRST_RISE * max(abs(self.cost), 1.0) / max(self.limit, 1.0)
        if math.isinf(self.limit):
            unit = 0.0
        spent = improve(
            active.restricted,
            *self._adjacency,
            self._held,
            self._choices,
            active.prices(self._prices),
            BlockLimits(size, float(entries), unit, work, self.limit),
            int(self._random.integers(2**31)),
            trial,
            stop,
        )
        rank = self.rank_of(trial)
        if rank[0] > 0.0:
            self._watch(profile_of(self.model, trial))
        if rank <= self.rank:
            self.states, self.rank = trial, rank
        return spent

    def _watch(self, profile: FloatArray) -> None:
        above = peaks(profile, self.limit)
        moments = np.union1d(above, peaks(profile, _NEAR_LIMIT * self.limit))
        if len(np.setdiff1d(moments, self._active.moments)):
            self._active.add(moments)

    def _drawn_kind(self) -> int:
        if self._random.random() < _CURIOSITY or not self._gains.any():
            return int(self._random.integers(len(self._kinds)))
        rates = self._gains / self._works
        return int(self._random.choice(len(rates), p=rates / rates.sum()))

    def rank_of(self, states: IntArray) -> tuple[float, float]:
        """(bytes above the limit, summed over the moments; cost)."""
        profile = profile_of(self.model, states)
        return (
            float(np.maximum(profile - self.limit, 0.0).sum()),
            cost_of(self.model, states),
        )
