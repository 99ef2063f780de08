"""ResNet-50 on 224 x 224 images (He et al. 2015, with the stride in the 3 x 3 convolution)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import nn

from meshwright.capture import Recipe


class Bottleneck(nn.Module):
    """1 x 1, 3 x 3, 1 x 1 convolutions around a shortcut."""

    def __init__(self, width_in: int, width: int, stride: int) -> None:
        super().__init__()
        width_out = 4 * width
        self.conv1 = nn.Conv2d(width_in, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, width_out, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(width_out)
        self.relu = nn.ReLU(inplace=True)
        self.shortcut: nn.Module | None = None
        if stride != 1 or width_in != width_out:
            self.shortcut = nn.Sequential(
                nn.Conv2d(width_in, width_out, 1, stride, bias=False), nn.BatchNorm2d(width_out)
            )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        across = x if self.shortcut is None else self.shortcut(x)
        return torch.relu_(y + across)


class Trunk(nn.Module):
    """Images to one feature vector each."""

    def __init__(self, blocks: Sequence[int] = (3, 4, 6, 3), width: int = 64) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 7, 2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        self.pool = nn.MaxPool2d(3, 2, padding=1)
        self.stages = nn.ModuleList()
        width_in = width
        for stage, count in enumerate(blocks):
            inner = width * 2**stage
            strides = [1 if stage == 0 else 2, *[1] * (count - 1)]
            layers = []
            for stride in strides:
                layers.append(Bottleneck(width_in, inner, stride))
                width_in = 4 * inner
            self.stages.append(nn.Sequential(*layers))
        self.features = width_in
        self.mean = nn.AdaptiveAvgPool2d(1)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = self.pool(self.relu(self.bn1(self.conv1(images))))
        for stage in self.stages:
            x = stage(x)
        return torch.flatten(self.mean(x), 1)


class ResNet(nn.Module):
    """Trunk, classifier, loss."""

    def __init__(
        self, blocks: Sequence[int] = (3, 4, 6, 3), width: int = 64, classes: int = 1000
    ) -> None:
        super().__init__()
        self.trunk = Trunk(blocks, width)
        self.classifier = nn.Linear(self.trunk.features, classes)

    def forward(self, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return nn.functional.cross_entropy(self.classifier(self.trunk(images)), labels)


def resnet50() -> Recipe:
    """ResNet-50 with 1,000 classes."""

    def inputs(sizes: Mapping[str, int]) -> dict[str, torch.Tensor]:
        return {
            "images": torch.zeros(sizes["batch"], 3, 224, 224, device="meta"),
            "labels": torch.zeros(sizes["batch"], dtype=torch.long, device="meta"),
        }

    return Recipe("resnet50", ResNet(), inputs, {"batch": 4096})
