"""The memory that a strategy needs at least: its states, and activations by those of drafts."""

from __future__ import annotations

from functools import cached_property
from math import inf, prod

from meshwright.schema import DTYPE_BYTES, RecomputePolicy
from meshwright_solver.pipeline.draft_plan import DraftPlan
from meshwright_solver.planning.target.strategies import StrategySpace, TargetStrategy

ROOM = 1.03  # chosen: estimates of memory miss that of plans by less, mostly
_EXPERT_KINDS = frozenset({"expert_matmul", "grouped_matmul"})


class StrategyMemory:
    """The memory of the strategies of one request."""

    def __init__(self, space: StrategySpace) -> None:
        self._space = space
        self._saved_bytes: dict[tuple[int, int, RecomputePolicy], float] = {}  # of a sequence

    @cached_property
    def limit_bytes(self) -> float:
        """The memory of a device without the reserve."""
        request = self._space.request
        return request.topology.device.memory_bytes * request.setup.usable_memory

    def add(self, strategy: TargetStrategy, draft: DraftPlan) -> None:
        """Add the activations of a draft."""
        key = strategy.degrees.tp, strategy.degrees.cp, strategy.policy
        saved_bytes = float(draft.profile.saved_bytes.sum()) / self._space.sequences(strategy)
        self._saved_bytes[key] = min(self._saved_bytes.get(key, inf), saved_bytes)

    def is_too_large(self, strategy: TargetStrategy) -> bool:
        """Whether states and activations exceed the memory."""
        needed_bytes = self.state_bytes(strategy)
        needed_bytes += self._activation_bytes(strategy, strategy.policy)
        return needed_bytes > ROOM * self.limit_bytes

    def recomputed_share(self, strategy: TargetStrategy) -> float:
        """The share of the activations that do not fit; 0 without a draft that saves all."""
        saved_bytes = self._activation_bytes(strategy, "none")
        room_bytes = ROOM * self.limit_bytes - self.state_bytes(strategy)
        return max(0.0, 1 - room_bytes / saved_bytes) if saved_bytes else 0.0

    def state_bytes(self, strategy: TargetStrategy) -> float:
        """Parameters, gradients and optimizer states on a device, even over all devices."""
        setup, degrees = self._space.request.setup, strategy.degrees
        assert degrees.dp is not None
        replicas = min(strategy.shard_size or degrees.dp * degrees.cp, degrees.dp * degrees.cp)
        gradient_bytes = DTYPE_BYTES[setup.gradient_dtype]
        total = 0.0
        for (dtype, is_expert), elements in self._elements.items():
            ways, shards = degrees.tp * strategy.ranks, float(replicas)
            if is_expert:
                ways, shards = ways * degrees.ep, max(1.0, replicas / degrees.ep)
            parts = (
                (DTYPE_BYTES[dtype], 3),
                (gradient_bytes, 2),
                (setup.optimizer_element_bytes(dtype), 1),
            )
            total += sum(
                elements / ways * each / (shards if degrees.zero >= stage else 1.0)
                for each, stage in parts
            )
        return total

    def _activation_bytes(self, strategy: TargetStrategy, policy: RecomputePolicy) -> float:
        """The activations of a policy on a device of the first rank; 0 without a like draft.

        More tensor and context parallelism cuts the activations of a sequence by its degrees at
        most. The first rank of a pipeline holds those of as many microbatches as there are ranks.
        """
        tp, cp = strategy.degrees.tp, strategy.degrees.cp
        saved_bytes = [
            each * other_tp * other_cp / (tp * cp)
            for (other_tp, other_cp, other_policy), each in self._saved_bytes.items()
            if other_policy == policy and tp % other_tp == 0 and cp % other_cp == 0
        ]
        held = self._space.sequences(strategy) * min(strategy.microbatches / strategy.ranks, 1.0)
        return max(saved_bytes, default=0.0) * held

    @cached_property
    def _elements(self) -> dict[tuple[str, bool], float]:
        """Elements of parameters by dtype, and whether they are those of experts."""
        graph = self._space.request.graph
        shapes = graph.instantiate(self._space.request.setup.symbols)
        of_experts = {name for op in graph.ops if op.kind in _EXPERT_KINDS for name in op.inputs}
        read = {name for op in graph.ops for name in op.inputs}
        counts: dict[tuple[str, bool], float] = {}
        for tensor in graph.tensors:
            if tensor.role == "parameter" and tensor.name in read:
                key = tensor.dtype, tensor.name in of_experts
                counts[key] = counts.get(key, 0.0) + prod(shapes[tensor.name])
        return counts
