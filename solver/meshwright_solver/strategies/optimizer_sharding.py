"""What a request allows of parameters at rest: `OptimizerParallel` as a choice among states.

A state of a parameter and the state in which its reader needs it say, axis by axis, what lies finer
at rest than it is read. An axis that the reader's own layout has is never in question (tensor
parallelism). On the others a level allows

    level   value   gradient   optimizer     codes
    0       whole   whole      whole         n
    1       whole   whole      sharded       n or n + 1
    2       whole   sharded    sharded       n or n + 2
    3       shard   sharded    sharded       n or a slot
    None    all of them

and of what it allows only the finest states: sharded over as many devices as there are, as the
parameter divides by, or as `shard_size` says. So a level is what it is called, and n stands only
where no more can be cut. Codes are those of `meshwright_solver.strategies.parameter_model`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from meshwright.schema import OptimizerParallel
from meshwright.schema.constraints import Offload
from meshwright_solver.common.arrays import BoolArray, IntArray

KIB = 1024


@dataclass(frozen=True, slots=True)
class OptimizerSharding:
    """What parameters may be at rest. optimizer_parallel: None leaves it to the search.

    over: of every axis of the mesh, whether they may be sharded over it; () for all.
    finest_on_host: on hosts they are sharded as finely as they can be, for want of room there.
    sparse: lookups of tables whose gradients may be sparse.
    """

    optimizer_parallel: OptimizerParallel | None = None
    over: tuple[bool, ...] = ()
    offload: Offload = "none"
    finest_on_host: bool = False
    sparse: frozenset[str] = frozenset()

    @property
    def hosts_optimizer(self) -> bool:
        return self.offload in ("optimizer", "auto")

    @property
    def hosts_tables(self) -> bool:
        return self.offload in ("embeddings", "auto")

    def may_shard(self, size_bytes: int, least_bytes: int) -> bool:
        """Whether a parameter is large enough; least_bytes: where the request says nothing."""
        wish = self.optimizer_parallel
        return size_bytes >= least_bytes if wish is None else size_bytes > wish.threshold_kb * KIB

    @property
    def deals(self) -> bool:
        """Whether optimizer state may lie whole on one device of a group, the gradient not."""
        wish = self.optimizer_parallel
        if wish is None or not wish.whole_parameters:
            return False
        return wish.level in (None, 1) and wish.gradient_accumulation_shard is not True

    @property
    def deals_gradients(self) -> bool:
        """Whether the gradient may lie there with it."""
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
        kept: int = 1,
        dealt: BoolArray | None = None,
    ) -> BoolArray:
        """(states, needed): which of the pairs the request does not allow.

        dealt: (states, axes), over which parameters are dealt out: sharded too. slots: of the
        parameter, with size_bytes. kept: over so many devices it is sharded already
        (`meshwright_solver.stage.heuristics.local_models`).
        """
        wish = self.optimizer_parallel
        if wish is None:
            return np.zeros((len(states), len(needed)), dtype=np.bool_)
        sizes = np.array(axis_sizes, dtype=np.float64)
        is_finer = states != slots if dealt is None else (states != slots) | dealt
        finer = is_finer[:, None, :] & (needed[None, :, :] >= slots) & (sizes > 1)
        ways = np.where(finer, sizes, 1.0).prod(axis=2)
        most = np.inf if wish.shard_size is None else max(1.0, wish.shard_size / kept)
        if not self.may_shard(size_bytes, 0):
            most = 1.0
        known = self._codes(slots)
        may = known[states][:, None, :] & np.array(self.over or True)
        allowed = (ways <= most) & (~finer | may).all(axis=2)
        if wish.level is not None:
            # a state that cuts what its reader needs otherwise is none of its states
            meets = (needed[None, :, :] >= slots) | (states[:, None, :] == needed[None, :, :])
            allowed &= meets.all(axis=2)
            finest = np.where(allowed, ways, 0.0).max(axis=0)
            allowed &= ways == finest
        forbidden: BoolArray = ~allowed
        return forbidden

    def _codes(self, slots: int) -> BoolArray:
        """By code: whether what lies finer at rest may have it."""
        wish = self.optimizer_parallel
        assert wish is not None
        shards = wish.gradient_accumulation_shard
        zero1 = wish.level in (None, 1) and shards is not True
        zero2 = wish.level in (None, 2) or (wish.level == 1 and shards is True)
        zero3 = wish.level in (None, 3)
        return np.array([*[zero3] * slots, True, zero1, zero2 and shards is not False])


AS_SEARCHED = OptimizerSharding()
