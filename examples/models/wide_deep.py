"""Wide & Deep (Cheng et al. 2016) on click data: 39 fields, one table of 100 million rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import torch
from torch import nn

from meshwright.capture import Recipe


class WideDeep(nn.Module):
    """A linear model of the fields beside a network on their embeddings."""

    def __init__(
        self,
        *,
        rows: int = 100_000_000,
        dim: int = 64,
        fields: int = 39,
        hidden: Sequence[int] = (1024, 512, 256),
    ) -> None:
        super().__init__()
        self.wide = nn.Embedding(rows, 1)
        self.table = nn.Embedding(rows, dim)
        widths = [fields * dim, *hidden]
        layers: list[nn.Module] = []
        for before, after in pairwise(widths):
            layers += [nn.Linear(before, after), nn.ReLU()]
        self.deep = nn.Sequential(*layers, nn.Linear(widths[-1], 1))

    def forward(
        self, ids: torch.Tensor, weights: torch.Tensor, labels: torch.Tensor
    ) -> torch.Tensor:
        wide = (self.wide(ids) * weights.unsqueeze(-1)).sum(dim=1)
        scaled = self.table(ids) * weights.unsqueeze(-1)
        logits = wide + self.deep(scaled.flatten(1))
        return nn.functional.binary_cross_entropy_with_logits(logits.squeeze(-1), labels)


def wide_deep() -> Recipe:
    """Wide & Deep with a table of 100 million rows of 64."""
    fields = 39

    def inputs(sizes: Mapping[str, int]) -> dict[str, torch.Tensor]:
        batch = sizes["batch"]
        return {
            "ids": torch.zeros(batch, fields, dtype=torch.long, device="meta"),
            "weights": torch.zeros(batch, fields, device="meta"),
            "labels": torch.zeros(batch, device="meta"),
        }

    return Recipe("wide-deep", WideDeep(fields=fields), inputs, {"batch": 65536})
