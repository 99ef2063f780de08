"""A network whose MLP is the program of one rank of four, with its own all-reduce."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn
from torch.distributed import _functional_collectives as collectives

from meshwright.capture import Recipe, SpmdRegion

WIDTH, HIDDEN, RANKS = 1024, 4096, 4


class ColumnRowMlp(nn.Module):
    """The shards of one rank: columns of the first product, rows of the second."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(WIDTH, HIDDEN // RANKS)
        self.down = nn.Linear(HIDDEN // RANKS, WIDTH, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        partial = self.down(nn.functional.gelu(self.up(x)))
        return collectives.all_reduce(partial, "sum", "tp")


class Net(nn.Module):
    """A product, the MLP, and a classifier; only the MLP states its layouts."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.out = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 100)
        self.mlp = SpmdRegion(
            ColumnRowMlp,
            size=RANKS,
            group="tp",
            inputs=(None,),
            outputs=None,
            parameters={"up.*": 0, "down.weight": 1},
        )

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return nn.functional.cross_entropy(self.out(self.mlp(self.first(x))), labels)


def column_row_mlp() -> Recipe:
    """The network for a batch of rows of 1,024 numbers."""

    def inputs(sizes: Mapping[str, int]) -> dict[str, torch.Tensor]:
        batch = sizes["batch"]
        return {
            "x": torch.zeros(batch, WIDTH, device="meta"),
            "labels": torch.zeros(batch, dtype=torch.long, device="meta"),
        }

    return Recipe("column-row-mlp", Net(), inputs, {"batch": 256})
