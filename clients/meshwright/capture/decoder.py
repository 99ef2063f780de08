"""The graph of a decoder from its dimensions alone: no framework, no model code, milliseconds.

Two families are written as transformers writes them. With gated feed-forward parts, the graph is
that of a Llama (RMS norms, rotary positions, no biases; Mixtral's experts, DeepSeek's shared
experts, dense first layers and latent attention); without, that of a GPT-2 (layer norms, learned
positions, biases). Tests compare both with graphs captured from transformers, op by op.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from meshwright.capture.slot_count import slot_count
from meshwright.schema import Graph, GraphError

Shape = Sequence[int | str]
BATCH, SEQ = "batch", "seq"


@dataclass(frozen=True, slots=True)
class LatentAttention:
    """Multi-head latent attention (DeepSeek-V2, arXiv:2405.04434): ranks of the projections, and
    head dims without and with rotation and of values. query_rank 0: queries have one projection."""

    query_rank: int
    key_rank: int
    plain_dim: int
    rotated_dim: int
    value_dim: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoder:
    """The dimensions of a decoder.

    kv_heads, head_dim: None as many as heads, and hidden / heads. ffn: of a dense layer. gated: a
    feed-forward part has three matrices. experts, top_k, expert_ffn: of the layers after the first
    `dense_layers`. shared_ffn: of experts that every token visits. unfused: attention is written
    out as two products and a softmax. dropout: of a decoder that is not gated, after attention's
    softmax where it is written out, after each residual branch, and after the embedding.
    """

    layers: int
    hidden: int
    heads: int
    vocabulary: int
    ffn: int = 0
    kv_heads: int | None = None
    head_dim: int | None = None
    gated: bool = True
    tied: bool = False
    experts: int = 0
    top_k: int = 0
    expert_ffn: int = 0
    shared_ffn: int = 0
    dense_layers: int = 0
    latent: LatentAttention | None = None
    unfused: bool = False
    dropout: float = 0.0

    def __post_init__(self) -> None:
        for name in ("layers", "hidden", "heads", "vocabulary"):
            if getattr(self, name) < 1:
                raise GraphError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.width < 1:
            raise GraphError(
                f"hidden {self.hidden} has less than one number for {self.heads} heads"
            )
        if self.experts and not 1 <= self.top_k <= self.experts:
            raise GraphError(f"top_k must be 1 to {self.experts} (experts), got {self.top_k}")
        if self.heads % self.key_heads:
            raise GraphError(f"kv_heads {self.key_heads} does not divide heads {self.heads}")

    @property
    def key_heads(self) -> int:
        return self.kv_heads or self.heads

    @property
    def width(self) -> int:
        """The head dim."""
        return self.head_dim or self.hidden // self.heads


def decoder_graph(
    decoder: Decoder, *, batch: int, seq: int, dtype: str = "bfloat16", name: str = "decoder"
) -> Graph:
    """The training graph of a decoder, with the symbols `batch` and `seq`."""
    writer = _DecoderWriter(decoder, dtype, seq)
    loss = writer.write()
    return Graph.from_dict(
        {
            "name": name,
            "symbols": {BATCH: batch, SEQ: seq},
            "tensors": writer.tensors,
            "ops": writer.ops,
            "outputs": [loss],
            "loss": loss,
        }
    )


@dataclass(slots=True)
class _DecoderWriter:
    decoder: Decoder
    dtype: str
    seq: int
    tensors: list[dict[str, Any]] = field(default_factory=list)
    ops: list[dict[str, Any]] = field(default_factory=list)
    _shape_of: dict[str, list[int | str]] = field(default_factory=dict)
    _names: dict[str, int] = field(default_factory=dict)
    _module: str = ""

    def write(self) -> str:
        return self._gated() if self.decoder.gated else self._gpt()

    # --- tensors and ops -------------------------------------------------------------------------

    def _tensor(self, name: str, shape: Shape, dtype: str, role: str = "activation") -> str:
        self.tensors.append({"name": name, "shape": list(shape), "dtype": dtype, "role": role})
        self._shape_of[name] = list(shape)
        return name

    def _parameter(self, name: str, *shape: int) -> str:
        return self._tensor(name, shape, self.dtype, "parameter")

    def _op(
        self,
        kind: str,
        inputs: Sequence[str],
        shape: Shape,
        *,
        name: str = "",
        dtype: str = "",
        attrs: Mapping[str, Any] | None = None,
    ) -> str:
        (out,) = self._several(
            kind, inputs, [shape], name=name, dtypes=[dtype or self.dtype], attrs=attrs
        )
        return out

    def _several(
        self,
        kind: str,
        inputs: Sequence[str],
        shapes: Sequence[Shape],
        *,
        name: str = "",
        dtypes: Sequence[str] = (),
        attrs: Mapping[str, Any] | None = None,
    ) -> list[str]:
        title = self._unique(name or ".".join(filter(None, (self._module, kind))))
        dtypes = dtypes or [self.dtype] * len(shapes)
        outs = [
            self._tensor(title if len(shapes) == 1 else f"{title}:{place}", shape, own)
            for place, (shape, own) in enumerate(zip(shapes, dtypes, strict=True))
        ]
        op: dict[str, Any] = {"name": title, "kind": kind, "inputs": list(inputs), "outputs": outs}
        if attrs:
            op["attrs"] = dict(attrs)
        if name or self._module:
            op["module"] = name or self._module
        self.ops.append(op)
        return outs

    def _unique(self, title: str) -> str:
        count = self._names[title] = self._names.get(title, 0) + 1
        return title if count == 1 else f"{title}_{count}"

    def _linear(self, x: str, name: str, width: int, *, bias: bool = False) -> str:
        inner = int(self._shape_of[x][-1])
        shape = (inner, width) if bias else (width, inner)
        inputs = [x, self._parameter(f"{name}.weight", *shape)]
        if bias:
            inputs.append(self._parameter(f"{name}.bias", width))
        layout = "kn" if bias else "nk"  # transformers' Conv1D, and nn.Linear
        return self._op(
            "linear",
            inputs,
            [*self._shape_of[x][:-1], width],
            name=name,
            attrs={"weight_layout": layout},
        )

    def _heads(self, x: str, count: int, width: int) -> str:
        """[batch, seq, count x width] as [batch, count, seq, width]."""
        split = self._op("reshape", [x], [BATCH, SEQ, count, width])
        return self._transpose(split, [BATCH, count, SEQ, width])

    def _transpose(self, x: str, shape: Shape) -> str:
        return self._op("transpose", [x], shape, attrs={"dims": [0, 2, 1, 3]})

    def _merged(self, x: str) -> str:
        """[batch, count, seq, width] as [batch, seq, count x width]."""
        _, count, _, width = self._shape_of[x]
        turned = self._transpose(x, [BATCH, SEQ, count, width])
        return self._op("reshape", [turned], [BATCH, SEQ, int(count) * int(width)])

    def _attention(self, query: str, key: str, value: str) -> str:
        width = int(self._shape_of[query][-1])
        out = [*self._shape_of[query][:-1], self._shape_of[value][-1]]
        scale = width**-0.5
        if not self.decoder.unfused:
            attrs = {"causal": True, "scale": scale}
            return self._op("attention", [query, key, value], out, attrs=attrs)
        count = self._shape_of[query][1]
        turned = self._op(
            "transpose", [key], [BATCH, count, width, SEQ], attrs={"dims": [0, 1, 3, 2]}
        )
        scores = self._op("matmul", [query, turned], [BATCH, count, SEQ, SEQ])
        shares = self._op("softmax", [scores], [BATCH, count, SEQ, SEQ], attrs={"dim": 3})
        shares = self._dropout(shares)
        return self._op("matmul", [shares, value], out)

    def _dropout(self, x: str) -> str:
        if not self.decoder.dropout or self.decoder.gated:
            return x
        return self._op("dropout", [x], self._shape_of[x], attrs={"p": self.decoder.dropout})

    def _tied_head(self, x: str, table: str) -> str:
        return self._op(
            "linear",
            [x, table],
            [BATCH, SEQ, self.decoder.vocabulary],
            name="lm_head",
            attrs={"weight_layout": "nk"},
        )

    def _loss(self, logits: str) -> str:
        self._module = ""
        vocabulary = self.decoder.vocabulary
        wide = self._op(
            "cast", [logits], [BATCH, SEQ, vocabulary], dtype="float32", attrs={"dtype": "float32"}
        )
        labels = self._tensor("labels", [BATCH, SEQ], "int64", "label")
        padded = self._op(
            "pad",
            [labels],
            [BATCH, "seq+1"],
            dtype="int64",
            attrs={"pads": [[0, 0], [0, 1]], "mode": "constant", "value": -100.0},
        )
        following = self._op(
            "slice",
            [padded],
            [BATCH, SEQ],
            dtype="int64",
            attrs={"dim": 1, "start": 1, "end": "seq+1", "step": 1},
        )
        return self._op(
            "cross_entropy",
            [wide, following],
            [],
            dtype="float32",
            attrs={"reduction": "mean", "ignore_index": -100},
        )

    # --- Llama, Mixtral, DeepSeek ----------------------------------------------------------------

    def _gated(self) -> str:
        decoder = self.decoder
        table = self._parameter("model.embed_tokens.weight", decoder.vocabulary, decoder.hidden)
        ids = self._tensor("input_ids", [BATCH, SEQ], "int64", "input")
        x = self._op(
            "embedding", [table, ids], [BATCH, SEQ, decoder.hidden], name="model.embed_tokens"
        )
        latent = decoder.latent
        rotary = self._rotary_tables(decoder.width if latent is None else latent.rotated_dim)
        for layer in range(decoder.layers):
            x = self._gated_layer(x, f"model.layers.{layer}", rotary, layer)
        x = self._rms_norm(x, "model.norm")
        tied = self._tied_head(x, table) if decoder.tied else None
        return self._loss(tied or self._linear(x, "lm_head", decoder.vocabulary))

    def _rotary_tables(self, width: int) -> tuple[str, str]:
        self._module = "model"
        attrs = {"start": 0, "end": SEQ, "step": 1}
        positions = self._op("arange", [], [SEQ], dtype="int64", attrs=attrs)
        self._module = "model.rotary_emb"
        column = self._op("reshape", [positions], [1, SEQ, 1], dtype="int64")
        wide = self._op("cast", [column], [1, SEQ, 1], dtype="float32", attrs={"dtype": "float32"})
        rates = self._tensor("model.rotary_emb.inv_freq", [width // 2], "float32", "buffer")
        angles = self._op("mul", [wide, rates], [1, SEQ, width // 2], dtype="float32")
        both = self._op(
            "concat", [angles, angles], [1, SEQ, width], dtype="float32", attrs={"dim": 2}
        )
        waves = [
            self._op(kind, [both], [1, SEQ, width], dtype="float32") for kind in ("cos", "sin")
        ]
        cos, sin = [
            self._op("cast", [wave], [1, SEQ, width], attrs={"dtype": self.dtype}) for wave in waves
        ]
        return cos, sin

    def _rms_norm(self, x: str, name: str) -> str:
        weight = self._parameter(f"{name}.weight", int(self._shape_of[x][-1]))
        attrs = {"dims": 1, "eps": 1e-05, "compute": "float32"}
        return self._op("rms_norm", [x, weight], self._shape_of[x], name=name, attrs=attrs)

    def _gated_layer(self, x: str, layer: str, rotary: tuple[str, str], place: int) -> str:
        decoder = self.decoder
        normed = self._rms_norm(x, f"{layer}.input_layernorm")
        self._module = f"{layer}.self_attn"
        attended = (
            self._grouped_attention(normed, rotary)
            if decoder.latent is None
            else self._latent_attention(normed, rotary, decoder.latent)
        )
        projected = self._linear(
            self._merged(attended), f"{layer}.self_attn.o_proj", decoder.hidden
        )
        self._module = layer
        x = self._op("add", [x, projected], self._shape_of[x])
        normed = self._rms_norm(x, f"{layer}.post_attention_layernorm")
        if decoder.experts and place >= decoder.dense_layers:
            mixed = self._experts(normed, f"{layer}.mlp")
        else:
            mixed = self._gated_mlp(normed, f"{layer}.mlp", decoder.ffn)
        self._module = layer
        return self._op("add", [x, mixed], self._shape_of[x])

    def _grouped_attention(self, x: str, rotary: tuple[str, str]) -> str:
        decoder, module = self.decoder, self._module
        counts = {"q": decoder.heads, "k": decoder.key_heads, "v": decoder.key_heads}
        heads = {}
        for letter, count in counts.items():
            wide = self._linear(x, f"{module}.{letter}_proj", count * decoder.width)
            heads[letter] = self._heads(wide, count, decoder.width)
        turned = [
            self._op("rotary", [heads[letter], *rotary], self._shape_of[heads[letter]])
            for letter in "qk"
        ]
        keys, values = turned[1], heads["v"]
        if decoder.unfused and decoder.key_heads != decoder.heads:
            keys, values = (self._repeated(each) for each in (keys, values))
        return self._attention(turned[0], keys, values)

    def _repeated(self, x: str) -> str:
        """Keys or values, once for every head that shares them."""
        decoder = self.decoder
        groups, width = decoder.key_heads, self._shape_of[x][-1]
        times = decoder.heads // groups
        apart = self._op("reshape", [x], [BATCH, groups, 1, SEQ, width])
        wide = self._op("expand", [apart], [BATCH, groups, times, SEQ, width])
        return self._op("reshape", [wide], [BATCH, decoder.heads, SEQ, width])

    def _latent_attention(self, x: str, rotary: tuple[str, str], latent: LatentAttention) -> str:
        module, heads = self._module, self.decoder.heads
        width = latent.plain_dim + latent.rotated_dim
        if latent.query_rank:
            narrow = self._linear(x, f"{module}.q_a_proj", latent.query_rank)
            narrow = self._rms_norm(narrow, f"{module}.q_a_layernorm")
            queries = self._linear(narrow, f"{module}.q_b_proj", heads * width)
        else:
            queries = self._linear(x, f"{module}.q_proj", heads * width)
        queries = self._heads(queries, heads, width)
        compressed = self._linear(
            x, f"{module}.kv_a_proj_with_mqa", latent.key_rank + latent.rotated_dim
        )
        inner, shared = self._split(compressed, [latent.key_rank, latent.rotated_dim])
        inner = self._rms_norm(inner, f"{module}.kv_a_layernorm")
        both = self._linear(
            inner, f"{module}.kv_b_proj", heads * (latent.plain_dim + latent.value_dim)
        )
        both = self._heads(both, heads, latent.plain_dim + latent.value_dim)
        plain_keys, values = self._split(both, [latent.plain_dim, latent.value_dim])
        plain, turning = self._split(queries, [latent.plain_dim, latent.rotated_dim])
        shared = self._op("reshape", [shared], [BATCH, 1, SEQ, latent.rotated_dim])
        turned = self._op("rotary", [turning, *rotary], self._shape_of[turning])
        shared = self._op("rotary", [shared, *rotary], self._shape_of[shared])
        shared = self._op("expand", [shared], [BATCH, heads, SEQ, latent.rotated_dim])
        queries = self._op("concat", [plain, turned], [BATCH, heads, SEQ, width], attrs={"dim": 3})
        keys = self._op(
            "concat", [plain_keys, shared], [BATCH, heads, SEQ, width], attrs={"dim": 3}
        )
        return self._attention(queries, keys, values)

    def _split(self, x: str, sizes: Sequence[int]) -> list[str]:
        shapes = [[*self._shape_of[x][:-1], size] for size in sizes]
        attrs = {"dim": len(self._shape_of[x]) - 1, "sizes": list(sizes)}
        return self._several("split", [x], shapes, attrs=attrs)

    def _gated_mlp(self, x: str, name: str, ffn: int) -> str:
        gate = self._linear(x, f"{name}.gate_proj", ffn)
        active = self._op("silu", [gate], self._shape_of[gate], name=f"{name}.act_fn")
        up = self._linear(x, f"{name}.up_proj", ffn)
        self._module = name
        product = self._op("mul", [active, up], self._shape_of[up])
        return self._linear(product, f"{name}.down_proj", self.decoder.hidden)

    def _experts(self, x: str, name: str) -> str:
        decoder, count, ffn = self.decoder, self.decoder.experts, self.decoder.expert_ffn
        self._module = f"{name}.gate"
        gate = self._op(
            "linear",
            [x, self._parameter(f"{name}.gate.weight", count, decoder.hidden)],
            [BATCH, SEQ, count],
            attrs={"weight_layout": "nk"},
        )
        wide = {"dtype": "float32"}
        scores = self._op("cast", [gate], [BATCH, SEQ, count], dtype="float32", attrs=wide)
        scores = self._op(
            "softmax", [scores], [BATCH, SEQ, count], dtype="float32", attrs={"dim": 2}
        )
        best: Shape = [BATCH, SEQ, decoder.top_k]
        weights, chosen = self._several(
            "topk",
            [scores],
            [best, best],
            dtypes=["float32", "int64"],
            attrs={"k": decoder.top_k, "dim": 2},
        )
        total = self._op(
            "sum",
            [weights],
            [BATCH, SEQ, 1],
            dtype="float32",
            attrs={"dims": [2], "keepdim": True},
        )
        weights = self._op("div", [weights, total], best, dtype="float32")
        self._module = f"{name}.experts"
        slots: list[int | str] = [count, BATCH, self._slots()]
        sent = self._op(
            "moe_dispatch",
            [x, chosen],
            [*slots, decoder.hidden],
            attrs={"capacity_factor": 1.0},
        )
        layout = {"weight_layout": "efh"}
        up = self._parameter(f"{name}.experts.gate_up_proj", count, 2 * ffn, decoder.hidden)
        both = self._op("expert_matmul", [sent, up], [*slots, 2 * ffn], attrs=layout)
        gate, up = self._split(both, [ffn, ffn])
        active = self._op("silu", [gate], [*slots, ffn], name=f"{name}.experts.act_fn")
        product = self._op("mul", [active, up], [*slots, ffn])
        down = self._parameter(f"{name}.experts.down_proj", count, decoder.hidden, ffn)
        out = self._op("expert_matmul", [product, down], [*slots, decoder.hidden], attrs=layout)
        hidden: Shape = [BATCH, SEQ, decoder.hidden]
        out = self._op(
            "moe_combine",
            [out, chosen, weights],
            hidden,
            dtype="float32",
            attrs={"capacity_factor": 1.0},
        )
        out = self._op("cast", [out], hidden, attrs={"dtype": self.dtype})
        if decoder.shared_ffn:
            shared = self._gated_mlp(x, f"{name}.shared_experts", decoder.shared_ffn)
            self._module = name
            out = self._op("add", [out, shared], hidden)
        return out

    def _slots(self) -> int | str:
        return slot_count(SEQ, self.decoder.top_k, self.decoder.experts, {SEQ: self.seq})

    # --- GPT-2 and GPT-3 -------------------------------------------------------------------------

    def _gpt(self) -> str:
        decoder = self.decoder
        table = self._parameter("transformer.wte.weight", decoder.vocabulary, decoder.hidden)
        ids = self._tensor("input_ids", [BATCH, SEQ], "int64", "input")
        hidden: Shape = [BATCH, SEQ, decoder.hidden]
        x = self._op("embedding", [table, ids], hidden, name="transformer.wte")
        self._module = "transformer"
        attrs = {"start": 0, "end": SEQ, "step": 1}
        positions = self._op("arange", [], [SEQ], dtype="int64", attrs=attrs)
        positions = self._op("reshape", [positions], [1, SEQ], dtype="int64")
        places = self._parameter("transformer.wpe.weight", self.seq, decoder.hidden)
        places = self._op(
            "embedding", [places, positions], [1, SEQ, decoder.hidden], name="transformer.wpe"
        )
        x = self._dropout(self._op("add", [x, places], hidden))
        for layer in range(decoder.layers):
            x = self._gpt_layer(x, f"transformer.h.{layer}")
        x = self._layer_norm(x, "transformer.ln_f")
        return self._loss(self._tied_head(x, table))

    def _layer_norm(self, x: str, name: str) -> str:
        width = int(self._shape_of[x][-1])
        both = [self._parameter(f"{name}.{part}", width) for part in ("weight", "bias")]
        attrs = {"dims": 1, "eps": 1e-05}
        return self._op("layer_norm", [x, *both], self._shape_of[x], name=name, attrs=attrs)

    def _gpt_layer(self, x: str, layer: str) -> str:
        decoder = self.decoder
        normed = self._layer_norm(x, f"{layer}.ln_1")
        queries, keys = decoder.heads * decoder.width, decoder.key_heads * decoder.width
        merged = self._linear(normed, f"{layer}.attn.c_attn", queries + 2 * keys, bias=True)
        self._module = f"{layer}.attn"
        query, key, value = self._split(merged, [queries, keys, keys])
        key = self._heads(key, decoder.key_heads, decoder.width)
        value = self._heads(value, decoder.key_heads, decoder.width)
        query = self._heads(query, decoder.heads, decoder.width)
        if decoder.unfused and decoder.key_heads != decoder.heads:
            key, value = self._repeated(key), self._repeated(value)
        attended = self._merged(self._attention(query, key, value))
        projected = self._linear(attended, f"{layer}.attn.c_proj", decoder.hidden, bias=True)
        projected = self._dropout(projected)
        self._module = layer
        x = self._op("add", [projected, x], self._shape_of[x])
        normed = self._layer_norm(x, f"{layer}.ln_2")
        inner = self._linear(normed, f"{layer}.mlp.c_fc", decoder.ffn, bias=True)
        active = self._op(
            "gelu",
            [inner],
            self._shape_of[inner],
            name=f"{layer}.mlp.act",
            attrs={"approximate": "tanh"},
        )
        mixed = self._linear(active, f"{layer}.mlp.c_proj", decoder.hidden, bias=True)
        mixed = self._dropout(mixed)
        self._module = layer
        return self._op("add", [x, mixed], self._shape_of[x])
