"""A 3D U-Net for volumes (Cicek et al. 2016): four channels of 128^3 voxels, five levels."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn

from meshwright.capture import Recipe


class Level(nn.Module):
    """Two 3 x 3 x 3 convolutions, each normalised."""

    def __init__(self, width_in: int, width: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv3d(width_in, width, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm3d(width)
        self.conv2 = nn.Conv3d(width, width, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm3d(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.bn1(self.conv1(x)))
        return torch.relu(self.bn2(self.conv2(x)))


class UNet3D(nn.Module):
    """Down by max pooling, up by transposed convolution, joined at every level."""

    def __init__(
        self, *, channels: int = 4, width: int = 32, levels: int = 5, classes: int = 4
    ) -> None:
        super().__init__()
        widths = [width * 2**level for level in range(levels)]
        befores = [channels, *widths[:-1]]
        self.down = nn.ModuleList(Level(a, b) for a, b in zip(befores, widths, strict=True))
        self.pool = nn.MaxPool3d(2)
        pairs = list(zip(widths[1:], widths[:-1], strict=True))[::-1]
        self.grow = nn.ModuleList(nn.ConvTranspose3d(a, b, 2, stride=2) for a, b in pairs)
        self.up = nn.ModuleList(Level(2 * b, b) for _, b in pairs)
        self.head = nn.Conv3d(width, classes, 1)

    def forward(self, volumes: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        kept = []
        x = volumes
        for position, level in enumerate(self.down):
            x = level(x if position == 0 else self.pool(x))
            kept.append(x)
        for grow, level, across in zip(self.grow, self.up, kept[-2::-1], strict=True):
            x = level(torch.cat([across, grow(x)], dim=1))
        return nn.functional.cross_entropy(self.head(x), labels)


def unet3d() -> Recipe:
    """Segmentation of 4 x 128^3 volumes into four classes."""
    side = 128

    def inputs(sizes: Mapping[str, int]) -> dict[str, torch.Tensor]:
        batch = sizes["batch"]
        return {
            "volumes": torch.zeros(batch, 4, side, side, side, device="meta"),
            "labels": torch.zeros(batch, side, side, side, dtype=torch.long, device="meta"),
        }

    return Recipe("unet3d", UNet3D(), inputs, {"batch": 32})
