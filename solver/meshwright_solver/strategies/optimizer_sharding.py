"""Optimizer sharding: the parameter states that a request's `OptimizerParallel` allows.

The state of a parameter and the state that its reader needs show, axis by axis, where the parameter
is sharded finer at rest than as read. Axes of the reader's layout (tensor parallelism) are always
allowed. On other axes a level allows

    level   value   gradient   optimizer     codes
    0       whole   whole      whole         n
    1       whole   whole      sharded       n or n + 1
    2       whole   sharded    sharded       n or n + 2
    3       shard   sharded    sharded       n or a slot
    None    all of them

A level allows only the finest of its states: sharded over as many devices as the mesh, the sizes of
the parameter and `shard_size` permit. Code n thus remains only where no further cut is possible.
Codes are those of `meshwright_solver.strategies.parameter_states`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from meshwright.schema import OptimizerParallel
from meshwright.schema.constraints import Offload
from meshwright_solver.common.arrays import BoolArray, IntArray

KIB = 1024


@dataclass(frozen=True, slots=True)
class OptimizerSharding:
    """Allowed states of parameters at rest. optimizer_parallel: None leaves them to the search.

    over: by mesh axis, whether parameters may be sharded over it; () for all. finest_on_host: on
    hosts, parameters are sharded as finely as possible, to save host memory. sparse: lookups whose
    tables may have sparse gradients. unsharded: parameters that are sharded as their readers need
    them and no finer.
    """

    optimizer_parallel: OptimizerParallel | None = None
    over: tuple[bool, ...] = ()
    offload: Offload = "none"
    finest_on_host: bool = False
    sparse: frozenset[str] = frozenset()
    unsharded: frozenset[str] = frozenset()

    def of(self, parameter: str) -> OptimizerSharding:
        """The allowed states of one parameter."""
        if parameter not in self.unsharded:
            return self
        return replace(self, optimizer_parallel=ALL_REDUCED)

    @property
    def hosts_optimizer(self) -> bool:
        return self.offload in ("optimizer", "auto")

    @property
    def hosts_tables(self) -> bool:
        return self.offload in ("embeddings", "auto")

    def may_shard(self, size_bytes: int, least_bytes: int) -> bool:
        """Whether a parameter is large enough; least_bytes: the minimum without a request."""
        wish = self.optimizer_parallel
        return size_bytes >= least_bytes if wish is None else size_bytes > wish.threshold_kb * KIB

    @property
    def deals(self) -> bool:
        """Whether an owner may hold the optimizer state whole, without the gradient."""
        wish = self.optimizer_parallel
        if wish is None or not wish.whole_parameters:
            return False
        return wish.level in (None, 1) and wish.gradient_accumulation_shard is not True

    @property
    def deals_gradients(self) -> bool:
        """Whether an owner may hold the optimizer state and the gradient."""
        wish = self.optimizer_parallel
        if wish is None or not wish.whole_parameters:
            return False
        if wish.level in (0, 1):
            return wish.level == 1 and wish.gradient_accumulation_shard is True
        return wish.gradient_accumulation_shard is not False

    def forbidden(
        self,
        states: IntArray,
        needed: IntArray,
        axis_sizes: tuple[int, ...],
        *,
        slots: int,
        size_bytes: int,
        sharded_ways: int = 1,
        dealt: BoolArray | None = None,
    ) -> BoolArray:
        """(states, needed): whether the request forbids a pair.

        slots, size_bytes: of the parameter. dealt: (states, axes), the axes over which owners hold
        parameters whole; they count as sharded. sharded_ways: number of devices that already shard
        the parameter (`meshwright_solver.stage.heuristics.local_models`).
        """
        wish = self.optimizer_parallel
        if wish is None:
            return np.zeros((len(states), len(needed)), dtype=np.bool_)
        sizes = np.array(axis_sizes, dtype=np.float64)
        is_finer = states != slots if dealt is None else (states != slots) | dealt
        finer = is_finer[:, None, :] & (needed[None, :, :] >= slots) & (sizes > 1)
        ways = np.where(finer, sizes, 1.0).prod(axis=2)
        most = np.inf if wish.shard_size is None else max(1.0, wish.shard_size / sharded_ways)
        if not self.may_shard(size_bytes, 0):
            most = 1.0
        known = self._codes(slots)
        may = known[states][:, None, :] & np.array(self.over or True)
        allowed = (ways <= most) & (~finer | may).all(axis=2)
        if wish.level is not None:
            # on axes that the reader shards, the state has to have the reader's layout
            meets = (needed[None, :, :] >= slots) | (states[:, None, :] == needed[None, :, :])
            allowed &= meets.all(axis=2)
            finest = np.where(allowed, ways, 0.0).max(axis=0)
            allowed &= ways == finest
        forbidden: BoolArray = ~allowed
        return forbidden

    def _codes(self, slots: int) -> BoolArray:
        """By code: whether an axis that is finer at rest than as read may have it."""
        wish = self.optimizer_parallel
        assert wish is not None
        shards = wish.gradient_accumulation_shard
        zero1 = wish.level in (None, 1) and shards is not True
        zero2 = wish.level in (None, 2) or (wish.level == 1 and shards is True)
        zero3 = wish.level in (None, 3)
        return np.array([*[zero3] * slots, True, zero1, zero2 and shards is not False])


AS_SEARCHED = OptimizerSharding()
ALL_REDUCED = OptimizerParallel(level=0)  # nothing is sharded: gradients are all-reduced
