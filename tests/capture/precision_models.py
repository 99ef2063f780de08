"""Small modules of mixed precision: autocast regions, islands in float32, casts by hand."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

T = torch.Tensor
WIDE, CLASSES = 8, 5


class NestedRegions(nn.Module):
    """A float16 region in a bfloat16 one, and a disabled one in it."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c, self.out = (nn.Linear(WIDE, WIDE) for _ in range(4))

    def forward(self, x: T, labels: T) -> T:
        with torch.autocast("cuda", torch.bfloat16):
            x = self.a(x).relu()
            with torch.autocast("cuda", torch.float16):
                x = self.b(x).relu()
                with torch.autocast("cuda", enabled=False):
                    x = self.c(x.float())
            logits = self.out(x)
        return F.cross_entropy(logits, labels)


class Island(nn.Module):
    """Attention scores and a norm in float32, in a region of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.norm = nn.Linear(WIDE, 3 * WIDE), nn.LayerNorm(WIDE)
        self.out = nn.Linear(WIDE, CLASSES)

    def forward(self, x: T, labels: T) -> T:
        with torch.autocast("cuda", torch.bfloat16):
            q, k, v = self.qkv(x).chunk(3, -1)
            with torch.autocast("cuda", enabled=False):
                scores = (q.float() @ k.float().mT / WIDE**0.5).softmax(-1)
            x = x + scores.to(v.dtype) @ v
            return F.cross_entropy(self.out(self.norm(x)), labels)


with warnings.catch_warnings():  # PyTorch disables the region on a machine without CUDA
    warnings.simplefilter("ignore")

    class Decorated(nn.Module):
        """The whole forward is a region."""

        def __init__(self) -> None:
            super().__init__()
            self.up, self.down = nn.Linear(WIDE, 2 * WIDE), nn.Linear(2 * WIDE, CLASSES)

        @torch.autocast("cuda", torch.bfloat16)
        def forward(self, x: T, labels: T) -> T:
            return F.cross_entropy(self.down(F.gelu(self.up(x))), labels)


class WideBuffer(nn.Module):
    """A buffer in float64 scales the input."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("scale", torch.linspace(1, 2, WIDE, dtype=torch.float64))
        self.out = nn.Linear(WIDE, CLASSES)

    def forward(self, x: T, labels: T) -> T:
        wide = x.double() * self.scale
        return F.cross_entropy(self.out(wide.to(x.dtype)).float(), labels)


class TiedHead(nn.Module):
    """The table of the embedding is the weight of the head."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.mix = nn.Embedding(CLASSES, WIDE), nn.Linear(WIDE, WIDE)

    def forward(self, labels: T, x: T) -> T:
        hidden = self.mix(self.table(labels)) + x
        return F.cross_entropy(F.linear(hidden, self.table.weight), labels)


class Convolutions(nn.Module):
    """Convolutions, batch norm and pooling of a row as an image."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv1d(1, 4, 3, padding=1), nn.BatchNorm1d(4)
        self.second, self.out = nn.Conv1d(4, 4, 3, padding=1), nn.Linear(4, CLASSES)

    def forward(self, x: T, labels: T) -> T:
        y = self.norm(self.first(x.unsqueeze(1))).relu()
        y = F.interpolate(self.second(y), scale_factor=2, mode="nearest").mean(-1)
        return F.cross_entropy(self.out(y), labels)


class Gated(nn.Module):
    """A loop of a gated recurrent cell, written out."""

    def __init__(self) -> None:
        super().__init__()
        self.given, self.kept = nn.Linear(2, 3 * WIDE), nn.Linear(WIDE, 3 * WIDE)
        self.out = nn.Linear(WIDE, CLASSES)

    def forward(self, x: T, labels: T) -> T:
        state = x.new_zeros(x.shape[0], WIDE)
        for step in x.reshape(x.shape[0], 4, 2).unbind(1):
            (a, b, c), (d, e, f) = self.given(step).chunk(3, -1), self.kept(state).chunk(3, -1)
            reset, update = (a + d).sigmoid(), (b + e).sigmoid()
            state = update * state + (1 - update) * (c + reset * f).tanh()
        return F.cross_entropy(self.out(state), labels)


class ByHand(nn.Module):
    """Weights of one half are cast by hand, and the sum is in float32."""

    def __init__(self) -> None:
        super().__init__()
        self.low, self.high = nn.Linear(WIDE, WIDE), nn.Linear(WIDE, CLASSES)

    def forward(self, x: T, labels: T) -> T:
        low = F.linear(x.bfloat16(), self.low.weight.bfloat16(), self.low.bias.bfloat16())
        return F.cross_entropy(self.high(low.to(x.dtype) + x), labels)


class _Doubled(torch.autograd.Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cuda", cast_inputs=torch.float32)
    def forward(ctx: Any, x: T) -> T:  # noqa: ARG004
        return 2 * x

    @staticmethod
    @torch.amp.custom_bwd(device_type="cuda")
    def backward(ctx: Any, gradient: T) -> T:  # noqa: ARG004
        return 2 * gradient


class CustomFunction(nn.Module):
    """A custom autograd function that takes its input in float32 in a region."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.out = nn.Linear(WIDE, WIDE), nn.Linear(WIDE, CLASSES)

    def forward(self, x: T, labels: T) -> T:
        return F.cross_entropy(self.out(_Doubled.apply(self.up(x))), labels)


class Attention(nn.Module):
    """torch's own attention module, and a normalized head."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(WIDE, 2, batch_first=True)
        self.out = nn.Parameter(torch.randn(CLASSES, WIDE))

    def forward(self, x: T, labels: T) -> T:
        y, _ = self.attention(x[:, None], x[:, None], x[:, None], need_weights=False)
        logits = F.normalize(y[:, 0], dim=-1) @ F.normalize(self.out, dim=-1).T
        return F.cross_entropy(logits * 4, labels)


class Encoder(nn.Module):
    """torch's own layer of an encoder, over three equal places."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(WIDE, 2, 16, dropout=0.0, batch_first=True)
        self.out = nn.Linear(WIDE, CLASSES)

    def forward(self, x: T, labels: T) -> T:
        places = x[:, None].expand(-1, 3, -1)
        return F.cross_entropy(self.out(self.layer(places).mean(1)), labels)


class Routed(nn.Module):
    """Two experts, weighed by a router in float32."""

    def __init__(self) -> None:
        super().__init__()
        self.router, self.out = nn.Linear(WIDE, 2), nn.Linear(WIDE, CLASSES)
        self.experts = nn.ModuleList(nn.Linear(WIDE, WIDE) for _ in range(2))

    def forward(self, x: T, labels: T) -> T:
        with torch.autocast("cuda", enabled=False):
            weights = self.router(x.float()).softmax(-1)
        mixed = [weights[:, k : k + 1] * expert(x) for k, expert in enumerate(self.experts)]
        return F.cross_entropy(self.out(sum(mixed)), labels)


@dataclass(frozen=True)
class PrecisionModel:
    """A module, and the options of its capture."""

    build: Callable[[], nn.Module]
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def region(self) -> str | None:
        return self.options.get("autocast")


UNDER = {"autocast": "bfloat16"}
MODELS: Mapping[str, PrecisionModel] = {
    "nested regions": PrecisionModel(NestedRegions),
    "island": PrecisionModel(Island),
    "decorated": PrecisionModel(Decorated),
    "wide buffer": PrecisionModel(WideBuffer, UNDER),
    "tied head": PrecisionModel(TiedHead, UNDER),
    "convolutions": PrecisionModel(Convolutions, UNDER),
    "gated": PrecisionModel(Gated, UNDER),
    "island in a region": PrecisionModel(Island, {"autocast": "float16"}),
    "by hand": PrecisionModel(ByHand, UNDER),
    "custom function": PrecisionModel(CustomFunction, UNDER),
    "attention": PrecisionModel(Attention, UNDER),
    "encoder": PrecisionModel(Encoder, UNDER),
    "routed": PrecisionModel(Routed, UNDER),
    "half": PrecisionModel(Decorated, {"dtype": "float16"}),
    "wide buffer, low": PrecisionModel(WideBuffer, {"dtype": "bfloat16"}),
}


def inputs(rows: int, device: str = "cpu", dtype: torch.dtype = torch.float32) -> dict[str, T]:
    """Random inputs of so many rows."""
    x = torch.randn(rows, WIDE, dtype=dtype, device=device)
    return {"x": x, "labels": torch.arange(rows, device=device) % CLASSES}
