"""Plans of vision layers are executed on scaled-down copies."""

import pytest
import torch
from torch import nn

from meshwright.capture import capture_module
from meshwright.plugins import certificate_of, find_planner, find_verifier, preset
from tests.one_stage import one_stage_request

WIDTH, SIDE = 96, 56


class Head(nn.Module):
    """Layers from an image to features, and a loss."""

    def __init__(self, layers: nn.Module) -> None:
        super().__init__()
        self.layers = layers

    def forward(self, image, labels):
        x = self.layers(image)
        return nn.functional.cross_entropy(x.flatten(1), labels)


class Patches(nn.Module):
    """Patches with a class token, which is cut off again: 16 of 17 rows."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, WIDTH, 14, stride=14)
        self.token = nn.Parameter(torch.zeros(1, 1, WIDTH))
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, image):
        x = self.patches(image).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(x), -1, -1), x], dim=1)
        return self.norm(x)[:, 1:].mean(1)


class Quarters(nn.Module):
    """Every second row and column, as between the stages of a Swin transformer."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Conv2d(3, WIDTH, 1), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, image):
        x = self.first(image).permute(0, 2, 3, 1)
        parts = [x[:, i::2, j::2] for j in (0, 1) for i in (0, 1)]
        return self.last(torch.cat(parts, dim=-1)).mean((1, 2))


LAYERS = {
    "a depthwise convolution": lambda: nn.Sequential(
        nn.Conv2d(3, WIDTH, 4, stride=4),
        nn.Conv2d(WIDTH, WIDTH, 7, padding=3, groups=WIDTH),
        nn.AdaptiveAvgPool2d(1),
    ),
    "a grouped convolution": lambda: nn.Sequential(
        nn.Conv2d(3, WIDTH, 4, stride=4),
        nn.Conv2d(WIDTH, 2 * WIDTH, 3, padding=1, groups=24),
        nn.AdaptiveAvgPool2d(1),
    ),
    "a norm of 32 groups": lambda: nn.Sequential(
        nn.Conv2d(3, WIDTH, 4, stride=4), nn.GroupNorm(32, WIDTH), nn.AdaptiveAvgPool2d(1)
    ),
    "a class token that is cut off": Patches,
    "cuts in steps of two": Quarters,
}


@pytest.mark.rotating
@pytest.mark.parametrize("name", LAYERS)
def test_a_plan_is_verified_with(name):
    def inputs(sizes):
        image = torch.zeros(sizes["batch"], 3, SIDE, SIDE, device="meta")
        return {
            "image": image,
            "labels": torch.zeros(sizes["batch"], dtype=torch.long, device="meta"),
        }

    graph = capture_module(Head(LAYERS[name]()), inputs, symbols={"batch": 64}, name="head")
    request = one_stage_request(graph=graph, topology=preset("h100-1x2"))
    answer = find_planner()(request)
    assert answer.plan is not None
    certificate = certificate_of(find_verifier(), answer.plan, request)
    assert certificate.outcome == "verified", certificate.detail
