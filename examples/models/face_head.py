"""Face recognition: a ResNet-50 trunk under a classifier of ten million identities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import nn

from examples.models.resnet50 import Trunk
from meshwright.capture import Recipe


class FaceHead(nn.Module):
    """Trunk, a feature of 512, one class an identity."""

    def __init__(
        self,
        *,
        blocks: Sequence[int] = (3, 4, 6, 3),
        width: int = 64,
        feature: int = 512,
        identities: int = 10_000_000,
    ) -> None:
        super().__init__()
        self.trunk = Trunk(blocks, width)
        self.feature = nn.Linear(self.trunk.features, feature)
        self.norm = nn.BatchNorm1d(feature)
        self.identities = nn.Linear(feature, identities, bias=False)

    def forward(self, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        feature = self.norm(self.feature(self.trunk(images)))
        return nn.functional.cross_entropy(self.identities(feature), labels)


def face_head() -> Recipe:
    """Ten million identities on 112 x 112 faces."""

    def inputs(sizes: Mapping[str, int]) -> dict[str, torch.Tensor]:
        return {
            "images": torch.zeros(sizes["batch"], 3, 112, 112, device="meta"),
            "labels": torch.zeros(sizes["batch"], dtype=torch.long, device="meta"),
        }

    return Recipe("face-head", FaceHead(), inputs, {"batch": 8192})
