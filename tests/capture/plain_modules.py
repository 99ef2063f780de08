"""Plain PyTorch modules of the kinds that people train, written as a user writes them.

Each is a Recipe at a realistic size and at one that runs in a second.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

from meshwright.capture import Recipe

T = torch.Tensor
Sizes = Mapping[str, int]
LONG = torch.long


@dataclass(frozen=True)
class PlainModule:
    """make: called with True for the small one. random: it draws numbers, in the same order."""

    name: str
    make: Callable[[bool], Recipe]


def feed(**shapes: tuple[object, ...]) -> Callable[[Sizes], dict[str, T]]:
    """Inputs by name: dims, as numbers or names of symbols, and a dtype last where not float."""

    def inputs(sizes: Sizes) -> dict[str, T]:
        made = {}
        for name, dims in shapes.items():
            dtype = dims[-1] if isinstance(dims[-1], torch.dtype) else torch.float32
            numbers = [d for d in dims if not isinstance(d, torch.dtype)]
            shape = [sizes[d] if isinstance(d, str) else d for d in numbers]
            made[name] = torch.zeros(shape, dtype=dtype, device="meta")
        return made

    return inputs


def heads(x: T, count: int) -> T:
    """[b, s, h] with the heads apart."""
    return x.view(x.shape[0], x.shape[1], count, -1).transpose(1, 2)


class Attention(nn.Module):
    def __init__(self, width: int, count: int, context: int | None = None) -> None:
        super().__init__()
        self.count = count
        self.q = nn.Linear(width, width, bias=False)
        self.kv = nn.Linear(context or width, 2 * width, bias=False)
        self.out = nn.Linear(width, width)

    def forward(self, x: T, context: T | None = None, *, causal: bool = False) -> T:
        keys, values = self.kv(x if context is None else context).chunk(2, dim=-1)
        q, k, v = (heads(one, self.count) for one in (self.q(x), keys, values))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
        return self.out(y.transpose(1, 2).flatten(2))


class Block(nn.Module):
    """A decoder block with dropout as a module."""

    def __init__(self, width: int, count: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, count)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: T) -> T:
        x = x + self.dropout(self.attention(self.norm1(x), causal=True))
        return x + self.dropout(self.mlp(self.norm2(x)))


def timestep_embedding(t: T, width: int) -> T:
    half = width // 2
    frequencies = torch.exp(-9.21 * torch.arange(half, device=t.device) / half)
    angles = t[:, None].float() * frequencies[None]
    return torch.cat([angles.cos(), angles.sin()], dim=-1)


class ResBlock(nn.Module):
    def __init__(self, before: int, after: int, time: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(8, before), nn.GroupNorm(8, after)
        self.conv1 = nn.Conv2d(before, after, 3, padding=1)
        self.conv2 = nn.Conv2d(after, after, 3, padding=1)
        self.time = nn.Linear(time, after) if time else None
        self.skip = nn.Conv2d(before, after, 1) if before != after else nn.Identity()

    def forward(self, x: T, time: T | None = None) -> T:
        h = self.conv1(F.silu(self.norm1(x)))
        if self.time is not None and time is not None:
            h = h + self.time(F.silu(time))[:, :, None, None]
        return self.skip(x) + self.conv2(F.silu(self.norm2(h)))


class SpatialTransformer(nn.Module):
    def __init__(self, width: int, context: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(8, width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.own, self.cross = Attention(width, 4), Attention(width, 4, context)
        self.up, self.down = nn.Linear(width, 8 * width), nn.Linear(4 * width, width)

    def forward(self, x: T, context: T) -> T:
        b, c, h, w = x.shape
        y = self.norm(x).flatten(2).transpose(1, 2)
        y = y + self.own(self.norms[0](y))
        y = y + self.cross(self.norms[1](y), context)
        value, gate = self.up(self.norms[2](y)).chunk(2, dim=-1)
        y = y + self.down(value * F.gelu(gate))
        return x + y.transpose(1, 2).reshape(b, c, h, w)


class UNet(nn.Module):
    def __init__(self, widths: tuple[int, ...], context: int) -> None:
        super().__init__()
        time = 4 * widths[0]
        self.width = widths[0]
        self.embed = nn.Sequential(nn.Linear(widths[0], time), nn.SiLU(), nn.Linear(time, time))
        self.first = nn.Conv2d(4, widths[0], 3, padding=1)
        self.downs, self.ups = nn.ModuleList(), nn.ModuleList()
        before = widths[0]
        for width in widths:
            block = nn.ModuleDict(
                {
                    "res": ResBlock(before, width, time),
                    "attention": SpatialTransformer(width, context),
                    "down": nn.Conv2d(width, width, 3, stride=2, padding=1),
                }
            )
            self.downs.append(block)
            before = width
        self.middle = ResBlock(before, before, time)
        for width in reversed(widths):
            block = nn.ModuleDict(
                {
                    "conv": nn.Conv2d(before, width, 3, padding=1),
                    "res": ResBlock(2 * width, width, time),
                    "attention": SpatialTransformer(width, context),
                }
            )
            self.ups.append(block)
            before = width
        self.norm, self.last = nn.GroupNorm(8, before), nn.Conv2d(before, 4, 3, padding=1)

    def forward(self, noisy: T, t: T, context: T, target: T) -> T:
        time = self.embed(timestep_embedding(t, self.width))
        x, skips = self.first(noisy), []
        for block in self.downs:
            x = block["attention"](block["res"](x, time), context)
            skips.append(x)
            x = block["down"](x)
        x = self.middle(x, time)
        for block in self.ups:
            x = block["conv"](F.interpolate(x, scale_factor=2.0, mode="nearest"))
            x = block["attention"](block["res"](torch.cat([x, skips.pop()], dim=1), time), context)
        return F.mse_loss(self.last(F.silu(self.norm(x))), target)


def unet(small: bool) -> Recipe:
    side, widths, context = (16, (16, 32), 24) if small else (64, (320, 640, 1280), 768)
    image = ("batch", 4, side, side)
    inputs = feed(noisy=image, t=("batch", LONG), context=("batch", 77, context), target=image)
    return Recipe("diffusion-unet", UNet(widths, context), inputs, {"batch": 64})


class DiTBlock(nn.Module):
    def __init__(self, width: int, count: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width, elementwise_affine=False, eps=1e-6)
        self.norm2 = nn.LayerNorm(width, elementwise_affine=False, eps=1e-6)
        self.attention = Attention(width, count)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"), nn.Linear(4 * width, width)
        )
        self.modulation = nn.Sequential(nn.SiLU(), nn.Linear(width, 6 * width))

    def forward(self, x: T, c: T) -> T:
        shift1, scale1, gate1, shift2, scale2, gate2 = self.modulation(c)[:, None].chunk(6, dim=-1)
        x = x + gate1 * self.attention(self.norm1(x) * (1 + scale1) + shift1)
        return x + gate2 * self.mlp(self.norm2(x) * (1 + scale2) + shift2)


class DiT(nn.Module):
    def __init__(self, width: int, depth: int, count: int, side: int) -> None:
        super().__init__()
        self.width, self.side = width, side // 2
        self.patches = nn.Conv2d(4, width, 2, stride=2)
        self.positions = nn.Parameter(torch.zeros(1, self.side**2, width))
        self.classes = nn.Embedding(1001, width)
        self.time = nn.Sequential(nn.Linear(256, width), nn.SiLU(), nn.Linear(width, width))
        self.blocks = nn.ModuleList(DiTBlock(width, count) for _ in range(depth))
        self.norm = nn.LayerNorm(width, elementwise_affine=False)
        self.out = nn.Linear(width, 2 * 2 * 4)

    def forward(self, noisy: T, t: T, kind: T, target: T) -> T:
        x = self.patches(noisy).flatten(2).transpose(1, 2) + self.positions
        c = self.time(timestep_embedding(t, 256)) + self.classes(kind)
        for block in self.blocks:
            x = block(x, c)
        x = self.out(self.norm(x)).view(-1, self.side, self.side, 2, 2, 4)
        image = torch.einsum("nhwpqc->nchpwq", x).reshape(noisy.shape)
        return F.mse_loss(image, target)


def dit(small: bool) -> Recipe:
    side = 8 if small else 32
    module = DiT(32, 2, 4, side) if small else DiT(1152, 28, 16, side)
    image = ("batch", 4, side, side)
    inputs = feed(noisy=image, t=("batch", LONG), kind=("batch", LONG), target=image)
    return Recipe("dit", module, inputs, {"batch": 256})


class JointBlock(nn.Module):
    """A block of MMDiT: text and image have weights of their own and attend together."""

    def __init__(self, width: int, count: int) -> None:
        super().__init__()
        self.count = count
        self.qkv = nn.ModuleList(nn.Linear(width, 3 * width) for _ in range(2))
        self.out = nn.ModuleList(nn.Linear(width, width) for _ in range(2))
        self.q_norm, self.k_norm = nn.RMSNorm(width // count), nn.RMSNorm(width // count)
        self.norms = nn.ModuleList(nn.LayerNorm(width, elementwise_affine=False) for _ in range(4))
        self.modulations = nn.ModuleList(nn.Linear(width, 6 * width) for _ in range(2))
        self.mlps = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
            for _ in range(2)
        )

    def forward(self, x: T, text: T, c: T) -> tuple[T, T]:
        streams = [x, text]
        parts = [m(F.silu(c)).unsqueeze(1).chunk(6, dim=-1) for m in self.modulations]
        qkv = []
        for i, stream in enumerate(streams):
            shift, scale = parts[i][0], parts[i][1]
            qkv.append(self.qkv[i](self.norms[i](stream) * (1 + scale) + shift).chunk(3, dim=-1))
        q, k, v = (heads(torch.cat(pair, dim=1), self.count) for pair in zip(*qkv, strict=True))
        y = F.scaled_dot_product_attention(self.q_norm(q), self.k_norm(k), v)
        y = y.transpose(1, 2).flatten(2)
        lengths = [stream.shape[1] for stream in streams]
        results = []
        for i, part in enumerate(y.split(lengths, dim=1)):
            stream = streams[i] + parts[i][2] * self.out[i](part)
            shift, scale, gate = parts[i][3:]
            hidden = self.norms[2 + i](stream) * (1 + scale) + shift
            results.append(stream + gate * self.mlps[i](hidden))
        return results[0], results[1]


class MMDiT(nn.Module):
    def __init__(self, width: int, depth: int, count: int, side: int, context: int) -> None:
        super().__init__()
        self.patches = nn.Conv2d(16, width, 2, stride=2)
        self.positions = nn.Parameter(torch.zeros(1, (side // 2) ** 2, width))
        self.text = nn.Linear(context, width)
        self.pooled = nn.Linear(context, width)
        self.time = nn.Sequential(nn.Linear(256, width), nn.SiLU(), nn.Linear(width, width))
        self.blocks = nn.ModuleList(JointBlock(width, count) for _ in range(depth))
        self.norm = nn.LayerNorm(width)
        self.out = nn.Linear(width, 2 * 2 * 16)

    def forward(self, latents: T, noise: T, t: T, text: T, pooled: T) -> T:
        weight = t[:, None, None, None]
        noisy = (1 - weight) * latents + weight * noise
        x = self.patches(noisy).flatten(2).transpose(1, 2) + self.positions
        c = self.time(timestep_embedding(1000 * t, 256)) + self.pooled(pooled)
        y = self.text(text)
        for block in self.blocks:
            x, y = block(x, y, c)
        velocity = F.pixel_shuffle(
            self.out(self.norm(x))
            .transpose(1, 2)
            .unflatten(2, (latents.shape[2] // 2, latents.shape[3] // 2)),
            2,
        )
        return (velocity - (noise - latents)).pow(2).mean()


def mmdit(small: bool) -> Recipe:
    side, context = (8, 24) if small else (64, 4096)
    module = MMDiT(32, 2, 4, side, context) if small else MMDiT(1536, 24, 24, side, context)
    image = ("batch", 16, side, side)
    inputs = feed(
        latents=image, noise=image, t=("batch",), text=("batch", 77, context),
        pooled=("batch", context),
    )  # fmt: skip
    return Recipe("mmdit", module, inputs, {"batch": 128})


class VAE(nn.Module):
    def __init__(self, widths: tuple[int, ...], latent: int) -> None:
        super().__init__()
        pairs = list(zip(widths, (*widths[1:], widths[-1]), strict=True))
        self.encoder = nn.Sequential(
            nn.Conv2d(3, widths[0], 3, padding=1),
            *(
                part
                for a, b in pairs
                for part in (ResBlock(a, b, 0), nn.Conv2d(b, b, 3, stride=2, padding=1))
            ),
            nn.Conv2d(widths[-1], 2 * latent, 3, padding=1),
        )
        self.decoder = nn.Sequential(
            nn.Conv2d(latent, widths[-1], 3, padding=1),
            *(
                part
                for a, b in reversed(pairs)
                for part in (nn.ConvTranspose2d(b, b, 4, stride=2, padding=1), ResBlock(b, a, 0))
            ),
            nn.Conv2d(widths[0], 3, 3, padding=1),
        )

    def forward(self, image: T, noise: T) -> T:
        mean, log_variance = self.encoder(image).chunk(2, dim=1)
        log_variance = log_variance.clamp(-30.0, 20.0)
        z = mean + noise * torch.exp(0.5 * log_variance)
        divergence = 0.5 * (mean.pow(2) + log_variance.exp() - 1 - log_variance).sum((1, 2, 3))
        return F.l1_loss(self.decoder(z), image) + 1e-6 * divergence.mean()


def vae(small: bool) -> Recipe:
    side, widths = (16, (8, 16)) if small else (256, (128, 256, 512))
    low = side // 2 ** len(widths)
    inputs = feed(image=("batch", 3, side, side), noise=("batch", 4, low, low))
    return Recipe("vae", VAE(widths, 4), inputs, {"batch": 64})


class Recurrent(nn.Module):
    """A language model of an LSTM or a GRU."""

    def __init__(self, cell: type[nn.RNNBase], vocab: int, width: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.recurrent = cell(width, width, num_layers=2, batch_first=True)
        self.out = nn.Linear(width, vocab)

    def forward(self, tokens: T, labels: T) -> T:
        hidden, _ = self.recurrent(self.embed(tokens))
        return F.cross_entropy(self.out(hidden).flatten(0, 1), labels.flatten())


def _recurrent(name: str, cell: type[nn.RNNBase], small: bool) -> Recipe:
    vocab, width, seq = (97, 16, 12) if small else (32_000, 2048, 512)
    inputs = feed(tokens=("batch", seq, LONG), labels=("batch", seq, LONG))
    return Recipe(name, Recurrent(cell, vocab, width), inputs, {"batch": 256})


class TemporalBlock(nn.Module):
    def __init__(self, before: int, after: int, dilation: int) -> None:
        super().__init__()
        self.pad = 2 * dilation
        self.conv1 = nn.Conv1d(before, after, 3, dilation=dilation)
        self.conv2 = nn.Conv1d(after, after, 3, dilation=dilation)
        self.skip = nn.Conv1d(before, after, 1)

    def forward(self, x: T) -> T:
        h = F.relu(self.conv1(F.pad(x, (self.pad, 0))))
        h = F.relu(self.conv2(F.pad(h, (self.pad, 0))))
        return F.relu(h + self.skip(x))


class TCN(nn.Module):
    def __init__(self, channels: int, width: int, depth: int) -> None:
        super().__init__()
        self.blocks = nn.Sequential(
            *(TemporalBlock(channels if i == 0 else width, width, 2**i) for i in range(depth))
        )
        self.out = nn.Linear(width, 1)

    def forward(self, x: T, target: T) -> T:
        return F.smooth_l1_loss(self.out(self.blocks(x)[:, :, -1]).squeeze(-1), target)


def tcn(small: bool) -> Recipe:
    channels, width, depth, length = (4, 8, 3, 32) if small else (64, 512, 8, 1024)
    inputs = feed(x=("batch", channels, length), target=("batch",))
    return Recipe("tcn", TCN(channels, width, depth), inputs, {"batch": 512})


class SAGE(nn.Module):
    """A graph network: means over the neighbours by index_add, degrees by scatter_add."""

    def __init__(self, features: int, width: int, depth: int, classes: int) -> None:
        super().__init__()
        sizes = [features] + [width] * depth
        self.own = nn.ModuleList(nn.Linear(a, b) for a, b in itertools.pairwise(sizes))
        self.near = nn.ModuleList(nn.Linear(a, b) for a, b in itertools.pairwise(sizes))
        self.out = nn.Linear(width, classes)

    def forward(self, x: T, source: T, target: T, labels: T) -> T:
        ones = torch.ones_like(target, dtype=x.dtype)
        degree = torch.zeros(x.shape[0], dtype=x.dtype, device=x.device)
        degree = degree.scatter_add(0, target, ones).clamp(min=1.0)
        for own, near in zip(self.own, self.near, strict=True):
            total = torch.zeros_like(x).index_add(0, target, x[source])
            x = F.relu(own(x) + near(total / degree[:, None]))
        return F.cross_entropy(self.out(x), labels)


def gnn(small: bool) -> Recipe:
    features, width, classes = (8, 16, 5) if small else (128, 1024, 47)
    inputs = feed(
        x=("batch", features), source=("edges", LONG), target=("edges", LONG),
        labels=("batch", LONG),
    )  # fmt: skip
    symbols = {"batch": 262_144, "edges": 4_194_304}
    return Recipe("gnn", SAGE(features, width, 3, classes), inputs, symbols)


class DLRM(nn.Module):
    def __init__(self, rows: tuple[int, ...], width: int, hidden: int) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.EmbeddingBag(count, width, mode="sum") for count in rows)
        self.bottom = nn.Sequential(
            nn.Linear(13, hidden), nn.ReLU(), nn.Linear(hidden, width), nn.ReLU()
        )
        pairs = (len(rows) + 1) * len(rows) // 2
        self.top = nn.Sequential(
            nn.Linear(width + pairs, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(),
            nn.Linear(hidden, 1),
        )  # fmt: skip
        lower = torch.tril_indices(len(rows) + 1, len(rows) + 1, offset=-1)
        self.register_buffer("left", lower[0], persistent=False)
        self.register_buffer("right", lower[1], persistent=False)

    def forward(self, dense: T, sparse: T, labels: T) -> T:
        x = self.bottom(dense)
        bags = [table(sparse[:, i]) for i, table in enumerate(self.tables)]
        features = torch.stack([x, *bags], dim=1)
        products = torch.bmm(features, features.transpose(1, 2))
        pairs = products[:, self.left, self.right]
        logits = self.top(torch.cat([x, pairs], dim=1)).squeeze(1)
        return F.binary_cross_entropy_with_logits(logits, labels)


def dlrm(small: bool) -> Recipe:
    rows = (7, 11, 13) if small else (40_000_000, 10_000_000, *[2_000_000] * 8, *[100_000] * 16)
    width, hidden, bag = (8, 16, 3) if small else (128, 1024, 10)
    inputs = feed(dense=("batch", 13), sparse=("batch", len(rows), bag, LONG), labels=("batch",))
    return Recipe("dlrm", DLRM(rows, width, hidden), inputs, {"batch": 65_536})


class TwoTower(nn.Module):
    def __init__(self, users: int, items: int, width: int) -> None:
        super().__init__()
        self.users, self.items = nn.Embedding(users, width), nn.Embedding(items, width)
        self.user, self.item = (
            nn.Sequential(nn.Linear(width, 4 * width), nn.ReLU(), nn.Linear(4 * width, width))
            for _ in range(2)
        )

    def forward(self, user: T, item: T) -> T:
        u = F.normalize(self.user(self.users(user)), dim=-1)
        v = F.normalize(self.item(self.items(item)), dim=-1)
        logits = u @ v.T / 0.05
        return F.cross_entropy(logits, torch.arange(len(logits), device=logits.device))


def two_tower(small: bool) -> Recipe:
    module = TwoTower(31, 37, 8) if small else TwoTower(50_000_000, 10_000_000, 128)
    inputs = feed(user=("batch", LONG), item=("batch", LONG))
    return Recipe("two-tower", module, inputs, {"batch": 16_384})


class VQ(nn.Module):
    """A VQ-VAE: nearest codes, and a straight-through gradient."""

    def __init__(self, width: int, codes: int) -> None:
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(3, width, 4, stride=2, padding=1), nn.ReLU(),
            nn.Conv2d(width, width, 4, stride=2, padding=1), nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1),
        )  # fmt: skip
        self.codes = nn.Embedding(codes, width)
        self.decoder = nn.Sequential(
            nn.ConvTranspose2d(width, width, 4, stride=2, padding=1), nn.ReLU(),
            nn.ConvTranspose2d(width, 3, 4, stride=2, padding=1),
        )  # fmt: skip

    def forward(self, image: T) -> T:
        z = self.encoder(image).permute(0, 2, 3, 1)
        flat = z.reshape(-1, z.shape[-1])
        table = self.codes.weight
        distances = flat.pow(2).sum(1, keepdim=True) - 2 * flat @ table.T + table.pow(2).sum(1)
        nearest = self.codes(distances.argmin(1)).view(z.shape)
        codebook, commitment = F.mse_loss(nearest, z.detach()), F.mse_loss(z, nearest.detach())
        passed = z + (nearest - z).detach()
        return (
            F.mse_loss(self.decoder(passed.permute(0, 3, 1, 2)), image)
            + codebook
            + 0.25 * commitment
        )


def vq(small: bool) -> Recipe:
    side, width, codes = (16, 8, 12) if small else (256, 256, 8192)
    return Recipe("vq", VQ(width, codes), feed(image=("batch", 3, side, side)), {"batch": 128})


class Decoder(nn.Module):
    """A language model of blocks; `layer` runs one block."""

    def __init__(self, vocab: int, width: int, depth: int, count: int, p: float = 0.0) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.blocks = nn.ModuleList(Block(width, count, p) for _ in range(depth))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocab, bias=False)

    def layer(self, block: nn.Module, x: T) -> T:
        y: T = block(x)
        return y

    def forward(self, tokens: T, labels: T) -> T:
        x = self.embed(tokens)
        for block in self.blocks:
            x = self.layer(block, x)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), labels.flatten())


class Depths(Decoder):
    """Mixture of depths: an eighth of the tokens goes through the block, the rest around it."""

    def __init__(self, vocab: int, width: int, depth: int, count: int) -> None:
        super().__init__(vocab, width, depth, count)
        self.routers = nn.ModuleList(nn.Linear(width, 1, bias=False) for _ in range(depth))

    def forward(self, tokens: T, labels: T) -> T:
        x = self.embed(tokens)
        for router, block in zip(self.routers, self.blocks, strict=True):
            scores = router(x).squeeze(-1)
            weights, places = scores.topk(x.shape[1] // 8, dim=1)
            places, order = places.sort(dim=1)
            weights = weights.gather(1, order)
            index = places.unsqueeze(-1).expand(-1, -1, x.shape[-1])
            taken = x.gather(1, index)
            change = (block(taken) - taken) * torch.sigmoid(weights).unsqueeze(-1)
            x = x.scatter_add(1, index, change)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), labels.flatten())


class Tied(Decoder):
    def __init__(self, vocab: int, width: int, depth: int, count: int) -> None:
        super().__init__(vocab, width, depth, count)
        self.head.weight = self.embed.weight


class Checkpointed(Decoder):
    def layer(self, block: nn.Module, x: T) -> T:
        y: T = checkpoint(block, x, use_reentrant=False)
        return y


class Dropout(Decoder):
    """Dropout as modules in the blocks, and as a function on the embeddings."""

    def forward(self, tokens: T, labels: T) -> T:
        x = F.dropout(self.embed(tokens), 0.1, self.training)
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), labels.flatten())


def _decoder(name: str, cls: type[Decoder], small: bool, **options: float) -> Recipe:
    vocab, width, depth, count, seq = (97, 16, 2, 2, 16) if small else (32_000, 2048, 16, 16, 2048)
    inputs = feed(tokens=("batch", seq, LONG), labels=("batch", seq, LONG))
    return Recipe(name, cls(vocab, width, depth, count, **options), inputs, {"batch": 64})


MODULES: tuple[PlainModule, ...] = (
    PlainModule("diffusion-unet", unet),
    PlainModule("dit", dit),
    PlainModule("mmdit", mmdit),
    PlainModule("vae", vae),
    PlainModule("lstm", lambda small: _recurrent("lstm", nn.LSTM, small)),
    PlainModule("gru", lambda small: _recurrent("gru", nn.GRU, small)),
    PlainModule("tcn", tcn),
    PlainModule("gnn", gnn),
    PlainModule("dlrm", dlrm),
    PlainModule("two-tower", two_tower),
    PlainModule("vq", vq),
    PlainModule("mixture-of-depths", lambda small: _decoder("mixture-of-depths", Depths, small)),
    PlainModule("tied-weights", lambda small: _decoder("tied-weights", Tied, small)),
    PlainModule("checkpointed", lambda small: _decoder("checkpointed", Checkpointed, small)),
    PlainModule("dropout", lambda small: _decoder("dropout", Dropout, small, p=0.1)),
)
