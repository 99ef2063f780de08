"""Expert slots in a step: as many as the busiest expert needs, so that no token is dropped."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import torch

from meshwright.runtime.expert_slots import Mixture
from meshwright.runtime.program import PlannedOp
from meshwright.runtime.torch.collectives import TorchCollectives

T = torch.Tensor
_LOG = logging.getLogger(__name__)


class ExpertSlots:
    """The slots of the mixtures of a stage. `mixtures` are by dispatch."""

    def __init__(self, mixtures: Mapping[str, Mixture], collectives: TorchCollectives) -> None:
        self._mixtures = mixtures
        self._collectives = collectives
        self._has_logged_slots = False
        self._logged_drops: set[str] = set()

    def ops(self, dispatch: PlannedOp, index: T) -> Mapping[str, PlannedOp]:
        """The ops of a mixture with more slots than planned; empty if the planned ones are enough.

        `index` (b, s, k) has the experts of each token.
        """
        mixture = self._mixtures.get(dispatch.op.name)
        if mixture is None:
            return {}
        tokens = _tokens(index, dispatch.shapes[0][0])
        if mixture.fixed:
            self._count_drops(dispatch.op.name, mixture, tokens)
            return {}
        most = tokens.max()
        for axis in mixture.axes:
            most = self._collectives.all_reduce(most, (axis,), dispatch.op.name, "count", "max")
        needed = int(most)
        slots = mixture.least_slots(needed)
        self._collectives.record.expert_slots[dispatch.op.name] = slots
        if slots == mixture.slots:
            return {}
        if not self._has_logged_slots:
            self._has_logged_slots = True
            _LOG.warning(
                "op %r: an expert is chosen %d times in a sequence, and the plan has %d slots for "
                "it. Experts compute as many slots as the busiest one needs, which takes more time "
                "and memory than planned. To include this in a plan, set --expert-imbalance",
                dispatch.op.name,
                needed,
                mixture.slots,
            )
        return mixture.with_slots(slots)

    def _count_drops(self, dispatch: str, mixture: Mixture, tokens: T) -> None:
        dropped = int((tokens - mixture.slots).clamp(min=0).sum())
        if not dropped:
            return
        counts = self._collectives.record.dropped_tokens
        counts[dispatch] = counts.get(dispatch, 0) + dropped
        if dispatch not in self._logged_drops:
            self._logged_drops.add(dispatch)
            _LOG.warning(
                "op %r drops %d tokens, which the captured module does not: the plan has %d slots "
                "of an expert for each sequence, whose number is fixed, because %s. "
                "`record.dropped_tokens` counts them. Plan a dispatch, its experts and its combine "
                "in one stage, with ops that compute every slot alone",
                dispatch,
                dropped,
                mixture.slots,
                mixture.fixed,
            )


def _tokens(index: T, experts: int) -> T:
    """(b, e) The number of tokens of each sequence that chose an expert."""
    chosen = index.detach().reshape(index.shape[0], -1).long()
    counts = torch.zeros(index.shape[0], experts, dtype=torch.int64, device=index.device)
    return counts.scatter_add_(1, chosen, torch.ones_like(chosen))
