"""Small models in float64 throughout, so that a run on several ranks can equal one to rounding."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

import torch
import torch._dynamo  # which traces import; here once, before ranks are forked
import torch.nn.functional as F
import transformers
from torch import nn

from examples.models.face_head import FaceHead
from examples.models.wide_deep import WideDeep
from meshwright.capture import SpmdRegion, capture_hf, capture_module, interpret
from meshwright.schema import Graph
from tests import own_ops

T = torch.Tensor
assert own_ops.fused_norm  # the import registers the operators


@dataclass(frozen=True, eq=False)  # one of MODELS, and itself the key of its graphs
class Model:
    """build: the module. inputs: random ones of these sizes. lengths: sizes beside the batch.

    captured: its graph for so many rows, loss: of a batch, where not as of any module.
    """

    build: Callable[[], nn.Module]
    inputs: Callable[[Mapping[str, int]], dict[str, T]]
    lengths: Mapping[str, int] = field(default_factory=dict)
    captured: Callable[[int], Graph] | None = None
    loss: Callable[[nn.Module, Mapping[str, T]], T] = lambda module, batch: module(**batch)

    def batch(self, rows: int) -> dict[str, T]:
        """Random inputs of so many rows."""
        return self.inputs({"batch": rows, **self.lengths})

    def graph(self, rows: int) -> Graph:
        """Captured with these sizes as its symbols; once for each number of rows."""
        return self.captured(rows) if self.captured is not None else _capture(self, rows)


@cache
def _capture(model: Model, rows: int) -> Graph:
    def inputs(sizes: Mapping[str, int]) -> dict[str, T]:
        return {name: tensor.to("meta") for name, tensor in model.inputs(sizes).items()}

    symbols = {"batch": rows, **model.lengths}
    return capture_module(model.build().double(), inputs, symbols=symbols, name="small")


class Norm(nn.Module):
    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(hidden))

    def forward(self, x: T) -> T:
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


def turned(x: T, cos: T, sin: T) -> T:
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin


class LlamaLayer(nn.Module):
    def __init__(self, hidden: int, heads: int, groups: int, inner: int) -> None:
        super().__init__()
        self.width = hidden // heads
        self.attention_norm, self.mlp_norm = Norm(hidden), Norm(hidden)
        for name, (given, made) in {
            "query": (hidden, hidden), "key": (hidden, groups * self.width),
            "value": (hidden, groups * self.width), "out": (hidden, hidden),
            "gate": (hidden, inner), "up": (hidden, inner), "down": (inner, hidden),
        }.items():  # fmt: skip
            setattr(self, name, nn.Linear(given, made, bias=False))

    def forward(self, x: T, cos: T, sin: T) -> T:
        rows, length, hidden = x.shape
        y = self.attention_norm(x)
        query, key, value = (
            own(y).view(rows, length, -1, self.width).transpose(1, 2)
            for own in (self.query, self.key, self.value)
        )
        query, key = turned(query, cos, sin), turned(key, cos, sin)
        seen = self.attend(query, key, value)
        x = x + self.out(seen.transpose(1, 2).reshape(rows, length, hidden))
        y = self.mlp_norm(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))

    def attend(self, query: T, key: T, value: T) -> T:
        return F.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)


class SinkLayer(LlamaLayer):
    """Attention written out, with a sink for each head, a soft cap, and a window if given."""

    def __init__(self, window: int | None) -> None:
        super().__init__(32, 4, 2, 48)
        self.window, self.sinks = window, nn.Parameter(torch.linspace(-1, 1, 4))

    def attend(self, query: T, key: T, value: T) -> T:
        key, value = (x.repeat_interleave(2, dim=1) for x in (key, value))
        scores = torch.tanh(query @ key.mT * 0.35 / 4.0) * 4.0
        at = torch.arange(query.shape[2], device=query.device)
        visible = at[None] <= at[:, None]
        if self.window is not None:
            visible = visible & (at[None] > at[:, None] - self.window)
        scores = scores + torch.zeros_like(visible, dtype=scores.dtype).masked_fill(
            ~visible, float("-inf")
        )
        sinks = self.sinks.reshape(1, -1, 1, 1).expand(*scores.shape[:3], 1)
        return torch.cat((scores, sinks), -1).softmax(-1)[..., :-1] @ value


class BiasLayer(LlamaLayer):
    """Attention with a learned slope for each head, causal or in a window that looks both ways."""

    def __init__(self, window: int | None) -> None:
        super().__init__(32, 4, 2, 48)
        self.window, self.slopes = window, nn.Parameter(torch.linspace(-0.3, 0.3, 4))

    def attend(self, query: T, key: T, value: T) -> T:
        at = torch.arange(query.shape[2], device=query.device)
        distance = at[:, None] - at[None]
        visible = distance >= 0 if self.window is None else distance.abs() < self.window
        bias = torch.where(visible, self.slopes[:, None, None] * at, float("-inf"))
        return F.scaled_dot_product_attention(query, key, value, attn_mask=bias, enable_gqa=True)


class Llama(nn.Module):
    """Grouped heads, rotary positions, labels moved by one of which some are ignored."""

    def __init__(self, layers: Sequence[LlamaLayer] | None = None) -> None:
        super().__init__()
        hidden, heads, vocabulary = 32, 4, 64
        self.width = hidden // heads
        self.table = nn.Embedding(vocabulary, hidden)
        self.layers = nn.ModuleList(layers or [LlamaLayer(hidden, heads, 2, 48) for _ in range(2)])
        self.norm, self.head = Norm(hidden), nn.Linear(hidden, vocabulary, bias=False)

    def forward(self, ids: T, labels: T) -> T:
        x = self.table(ids)
        steps = torch.arange(0, self.width, 2, dtype=x.dtype)
        places = torch.arange(ids.shape[1], dtype=x.dtype)
        angles = places[:, None] * torch.exp(steps * (-9.2 / self.width))
        angles = torch.cat((angles, angles), dim=-1)
        cos, sin = angles.cos(), angles.sin()
        for layer in self.layers:
            x = layer(x, cos, sin)
        logits = self.head(self.norm(x))
        labels = F.pad(labels, (0, 1), value=-100)[:, 1:]
        return F.cross_entropy(logits.flatten(0, 1), labels.reshape(-1), ignore_index=-100)


def text(sizes: Mapping[str, int]) -> dict[str, T]:
    """Ids, and labels of which rows have different numbers."""
    rows, length = sizes["batch"], sizes["seq"]
    ids = torch.randint(0, 64, (rows, length))
    kept = torch.arange(length) >= torch.arange(rows)[:, None] % 5
    return {"ids": ids, "labels": ids.where(kept, -100)}


class Gpt(nn.Module):
    """One projection of query, key and value side by side, biases, a table of places, one table for
    words and logits."""

    def __init__(self, groups: int = 4, *, reads_again: bool = False) -> None:
        """groups: heads of keys and of values. reads_again: words are added after each layer."""
        super().__init__()
        self.reads_again = reads_again
        hidden, self.heads, vocabulary = 32, 4, 64
        self.parts = [hidden, groups * hidden // 4, groups * hidden // 4]
        self.words, self.places = nn.Embedding(vocabulary, hidden), nn.Embedding(8, hidden)
        self.layers = nn.ModuleList(
            nn.ModuleDict(
                {
                    "first": nn.LayerNorm(hidden), "fused": nn.Linear(hidden, sum(self.parts)),
                    "out": nn.Linear(hidden, hidden), "second": nn.LayerNorm(hidden),
                    "up": nn.Linear(hidden, 64), "down": nn.Linear(64, hidden),
                }
            )
            for _ in range(2)
        )  # fmt: skip
        self.norm = nn.LayerNorm(hidden)
        self.head = nn.Linear(hidden, vocabulary, bias=False)
        self.head.weight = self.words.weight

    def forward(self, ids: T, labels: T) -> T:
        rows, length = ids.shape
        x = self.words(ids) + self.places(torch.arange(length))
        for layer in self.layers:
            assert isinstance(layer, nn.ModuleDict)
            fused = layer["fused"](layer["first"](x)).split(self.parts, dim=-1)
            query, key, value = (
                own.view(rows, length, -1, x.shape[-1] // self.heads).transpose(1, 2)
                for own in fused
            )
            seen = F.scaled_dot_product_attention(
                query, key, value, is_causal=True, enable_gqa=self.parts[0] != self.parts[1]
            )
            x = x + layer["out"](seen.transpose(1, 2).reshape(x.shape))
            x = x + layer["down"](F.gelu(layer["up"](layer["second"](x))))
            x = x + self.words(ids) if self.reads_again else x
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100)


class OwnOps(nn.Module):
    """A fused norm that the user registered, and operators without a canonical kind."""

    def __init__(self) -> None:
        super().__init__()
        hidden, vocabulary = 32, 64
        self.table = nn.Embedding(vocabulary, hidden)
        self.scale = nn.Parameter(torch.linspace(0.5, 1.5, hidden))
        self.up, self.head = nn.Linear(hidden, 48), nn.Linear(48, vocabulary)
        self.places = nn.Parameter(torch.linspace(-1, 1, 48).reshape(2, 24).sin())

    def forward(self, ids: T, labels: T) -> T:
        x = torch.ops.meshwright_tests.fused_norm(self.table(ids), self.scale, 1e-6)
        x = torch.logcumsumexp(self.up(x), 1)
        rows, length, width = x.shape
        away = torch.cdist(x.reshape(rows, 2 * length, width // 2), self.places.expand(rows, 2, -1))
        x = x + away.mean((1, 2))[:, None, None]
        return F.cross_entropy(self.head(x).flatten(0, 1), labels.flatten(), ignore_index=-100)


class Recurrent(nn.Module):
    """Recurrent layers in both directions, with a projection, and from a learned state."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(64, 16)
        self.both = nn.LSTM(16, 12, num_layers=2, bidirectional=True, proj_size=8, batch_first=True)
        self.gated, self.plain = nn.GRU(16, 16), nn.RNN(16, 16, nonlinearity="relu", bias=False)
        self.state = nn.Parameter(torch.linspace(-1, 1, 16))
        self.head = nn.Linear(16, 64)

    def forward(self, ids: T, labels: T) -> T:
        x, (last, _) = self.both(self.table(ids))
        x, state = x.transpose(0, 1), self.state.expand(1, ids.shape[0], 16).contiguous()
        y = self.plain(self.gated(x, state)[0])[0].transpose(0, 1)
        logits = self.head(y + last[-2:].transpose(0, 1).flatten(1)[:, None])
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100)


def clicks(sizes: Mapping[str, int]) -> dict[str, T]:
    """Ids of four fields with weights, and whether it was clicked."""
    rows = sizes["batch"]
    return {
        "ids": torch.randint(0, 64, (rows, 4)),
        "weights": torch.rand(rows, 4, dtype=torch.float64),
        "labels": torch.randint(0, 2, (rows,)).double(),
    }


def faces(sizes: Mapping[str, int]) -> dict[str, T]:
    """Images, and whose they are."""
    rows = sizes["batch"]
    images = torch.rand(rows, 3, 16, 16, dtype=torch.float64)
    return {"images": images, "labels": torch.randint(0, 64, (rows,))}


MIXTRAL = {
    "architectures": ["MixtralForCausalLM"], "model_type": "mixtral", "dtype": "float32",
    "vocab_size": 64, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "num_local_experts": 4,
    "num_experts_per_tok": 2, "max_position_embeddings": 128, "sliding_window": None,
    "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0, "tie_word_embeddings": False,
}  # fmt: skip


ONE_EXPERT = {**MIXTRAL, "num_experts_per_tok": 1}


def mixtral(config_values: Mapping[str, object] = MIXTRAL) -> nn.Module:
    """From transformers, with random weights."""
    config = transformers.AutoConfig.for_model(**config_values)
    config.use_cache = False
    found: nn.Module = transformers.MixtralForCausalLM._from_config(
        config, dtype=torch.float32, attn_implementation="sdpa"
    )
    return found.train()


def one_expert() -> nn.Module:
    """A mixture whose first expert gets every token, eight times as many as an even split."""
    module = mixtral(ONE_EXPERT)
    with torch.no_grad():
        for name, weight in module.named_parameters():
            if name.endswith("embed_tokens.weight"):
                weight.add_(1.0)
            elif name.endswith("gate.weight"):
                weight.copy_(0.1 * torch.arange(3.0, -1.0, -1.0)[:, None].expand_as(weight))
    return module


@cache
def mixtral_graph(rows: int, choices: int = 2) -> Graph:
    """Captured from its configuration; once, though every step of `by_ops` reads it."""
    values = MIXTRAL if choices == 2 else ONE_EXPERT
    return capture_hf(values, batch=rows, seq=8, name="mixtral")


def by_ops(module: nn.Module, batch: Mapping[str, T]) -> T:
    """The loss of its graph in float64, which the module has not throughout."""
    rows = batch["input_ids"].shape[0]
    graph = mixtral_graph(rows, module.config.num_experts_per_tok)
    assert graph.loss is not None
    values = {**dict(module.named_parameters()), **dict(module.named_buffers()), **batch}
    return interpret(graph, values, dtypes={"float32": torch.float64})[graph.loss]


def of_transformers(sizes: Mapping[str, int]) -> dict[str, T]:
    """As `text`, under the names that transformers has."""
    own = text(sizes)
    return {"input_ids": own["ids"], "labels": own["labels"]}


class RankOfExperts(nn.Module):
    """Of one rank of a group: columns of a feed-forward part, and an expert for its share."""

    def __init__(self, ranks: int) -> None:
        super().__init__()
        self.ranks = ranks
        self.up, self.down = nn.Linear(16, 32 // ranks), nn.Linear(32 // ranks, 16, bias=False)
        self.gather, self.expert = nn.Linear(16, 16 // ranks), nn.Linear(16 // ranks, 16 // ranks)

    def forward(self, x: T) -> T:
        group = torch.ops._c10d_functional
        columns = group.all_gather_into_tensor(self.gather(x).T.contiguous(), self.ranks, "tp")
        hidden = self.down(F.gelu(self.up(group.wait_tensor(columns).T)))
        share = group.reduce_scatter_tensor(hidden.T.contiguous(), "sum", self.ranks, "tp")
        share = self.expert(group.wait_tensor(share).T)
        sent = group.all_to_all_single(share.T.contiguous(), [], [], "tp")
        whole = group.all_gather_into_tensor(group.wait_tensor(sent), self.ranks, "tp")
        return group.wait_tensor(group.all_reduce(group.wait_tensor(whole).T.tanh(), "avg", "tp"))


class Regions(nn.Module):
    """A user's own collectives between parts that the planner shards."""

    def __init__(self, ranks: int) -> None:
        super().__init__()
        self.table, self.head = nn.Embedding(64, 16), nn.Linear(16, 64)
        self.region = SpmdRegion(
            lambda: RankOfExperts(ranks),
            size=ranks,
            group="tp",
            inputs=(None,),
            parameters={"up.*": 0, "gather.*": 0, "expert.*": 0, "down.weight": 1},
        )

    def forward(self, ids: T, labels: T) -> T:
        x = self.table(ids).flatten(0, 1)
        x = x + self.region(x)
        return F.cross_entropy(self.head(x), labels.reshape(-1))


class LongConvolution(nn.Module):
    """A convolution as long as the sequence, by FFT, with a filter that a small network makes."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.head = nn.Embedding(64, 16), nn.Linear(16, 64)
        self.filter = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 16))

    def forward(self, ids: T, labels: T) -> T:
        x = self.table(ids)
        count = ids.shape[1]
        steps = torch.arange(count, dtype=x.dtype)[:, None] / 8
        waves = torch.cat((steps, steps.sin(), steps.cos()), dim=1)
        filters = torch.fft.rfft(self.filter(waves).T, n=2 * count)
        product = torch.fft.rfft(x.mT, n=2 * count) * filters
        x = x + torch.fft.irfft(product, n=2 * count)[..., :count].mT
        return F.cross_entropy(self.head(x).flatten(0, 1), labels.reshape(-1))


class Windows(nn.Module):
    """Attention in windows of 2 x 2 positions, moved by one, with biases of distances."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.head = nn.Embedding(64, 16), nn.Linear(16, 64)
        self.query_key_value = nn.Linear(16, 48)
        self.bias = nn.Parameter(torch.randn(2, 4, 4))

    def forward(self, ids: T, labels: T) -> T:
        x = self.table(ids)
        rows = x.shape[0]
        windows = x.view(rows, 4, 2, 16).roll(1, 1).view(rows, 2, 2, 2, 16).transpose(2, 3)
        parts = self.query_key_value(windows.reshape(-1, 4, 16)).view(-1, 4, 3, 2, 8)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        weights = (query @ key.mT * 8**-0.5 + self.bias).softmax(-1)
        seen = (weights @ value).transpose(1, 2).reshape(rows, 2, 2, 2, 16).transpose(2, 3)
        x = x + seen.reshape(rows, 4, 2, 16).roll(-1, 1).view(rows, 8, 16)
        return F.cross_entropy(self.head(x).flatten(0, 1), labels.reshape(-1))


MODELS = {
    "llama": Model(Llama, text, {"seq": 8}),
    "sinks": Model(lambda: Llama([SinkLayer(3), SinkLayer(None)]), text, {"seq": 8}),
    "biases": Model(lambda: Llama([BiasLayer(3), BiasLayer(None)]), text, {"seq": 8}),
    "gpt": Model(Gpt, lambda sizes: text({**sizes, "seq": 8})),
    "gpt with groups": Model(lambda: Gpt(2), lambda sizes: text({**sizes, "seq": 8})),
    "gpt that reads again": Model(
        lambda: Gpt(reads_again=True), lambda sizes: text({**sizes, "seq": 8})
    ),
    "recurrent": Model(Recurrent, text, {"seq": 8}),
    "wide and deep": Model(lambda: WideDeep(rows=64, dim=8, fields=4, hidden=(16, 8)), clicks),
    "faces": Model(lambda: FaceHead(blocks=(1,), width=8, feature=16, identities=64), faces),
    "own ops": Model(OwnOps, text, {"seq": 8}),
    "long convolution": Model(LongConvolution, text, {"seq": 8}),
    "region of two": Model(lambda: Regions(2), text, {"seq": 8}),
    "region of four": Model(lambda: Regions(4), text, {"seq": 8}),
    "windows": Model(Windows, lambda sizes: text({**sizes, "seq": 8})),
    "mixtral": Model(mixtral, of_transformers, {"seq": 8}, mixtral_graph, by_ops),
    "one expert": Model(
        one_expert, of_transformers, {"seq": 8}, lambda rows: mixtral_graph(rows, 1), by_ops
    ),
}
