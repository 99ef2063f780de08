"""The dimensions of a row's model, and what stands in where a row says little.

A row with `layers`, `hidden` and `heads` is taken at its word. Latent attention has DeepSeek-V3's
ranks; `arch_family` or the name says which models have it. For any other row a model's parameters
stand in, `params_b` or as its name says them (`llama-7b`, `30b-a3b`): a GPT whose width is 128
times its depth. Hybrids of state spaces and attention have no graph of dimensions, and windows of
attention count as none.
"""

from __future__ import annotations

import math
import re

from meshwright.capture.decoder import Decoder, LatentAttention
from meshwright.runs.table import NotPredictable, Row, amount, flag, needed, text_of

_LATENT = re.compile(r"mla|deepseek[-_ ]?(v[23]|r1)|kimi[-_ ]?k2")
# published: DeepSeek-V3 (arXiv:2412.19437), section 4.2
_DEEPSEEK = LatentAttention(1536, 512, 128, 64, 128)
_HYBRID = re.compile(r"nemotron_?(h|3|nano_v?2)|jamba|zamba|bamba|falcon_?h1|granite_?4")
# pattern of the name, billion parameters that a token visits; published by who made them:
# arXiv:2412.19437, 2405.04434, 2507.20534, 2508.10925; release notes of DBRX, Grok-1 and Llama 4
_ACTIVE = (
    (r"deepseek_?(v3|r1)", 37.0),
    (r"deepseek_?v2_lite", 2.4),
    (r"deepseek_?v2", 21.0),
    (r"kimi_?k2", 32.0),
    (r"gpt_?oss_120b", 5.1),
    (r"gpt_?oss_20b", 3.6),
    (r"dbrx", 36.0),
    (r"grok_?1", 86.0),
    (r"llama_?4", 17.0),
)
# published: Mixtral's 13 of 47 billion (arXiv:2401.04088), of names like 8x7b
_SEVERAL = re.compile(r"(?:^|_)(\d+)x(\d+(?:_\d+)?)b(?:_|$)")
SEVERAL_ACTIVE, SEVERAL_TOTAL = 13 / 47, 47 / 56
ASPECT = 128.0  # chosen: hidden numbers a layer, as GPT-3 and Llama have 100 to 160
HEAD = 128.0
VOCABULARY = 50257.0  # published: GPT-2's, of rows that state none
VOCABULARY_TILE = 128  # published: Megatron-LM, --make-vocab-size-divisible-by
DROPOUT = 0.1  # published: of GPT-2 and GPT-3 style runs with attention written out (Megatron-LM)


def model_of(row: Row, *, tp: int = 1, has_flash: bool = True) -> tuple[Decoder, str]:
    """The decoder of a row, and a note on what was filled in.

    tp: the vocabulary is padded to whole tiles on each tensor-parallel rank, as training stacks do.
    has_flash: whether attention is one kernel.
    """
    if any(text_of(row, name) for name in ("layers", "hidden", "heads")):
        return _stated(row, tp, has_flash), ""
    name = re.sub(r"[-. ]+", "_", text_of(row, "model"))
    if _HYBRID.search(name):
        raise NotPredictable("hybrids of state spaces and attention have no graph here")
    return _guessed(row, name, tp, has_flash)


def _stated(row: Row, tp: int, has_flash: bool) -> Decoder:
    hidden, heads = round(needed(row, "hidden")), round(needed(row, "heads"))
    layers, experts = round(needed(row, "layers")), round(amount(row, "moe_experts", 0.0))
    is_latent = bool(_LATENT.search(f"{text_of(row, 'arch_family')} {text_of(row, 'model')}"))
    ffn = amount(row, "ffn", 0.0 if experts else 4 * hidden)
    tile = VOCABULARY_TILE * tp
    is_gated = experts > 0 or is_latent or flag(row, "glu", 0.0, "glu") > 0
    return Decoder(
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=heads if is_latent else round(amount(row, "kv_heads", heads)),
        head_dim=round(amount(row, "head_dim", hidden / heads)),
        ffn=round(ffn),
        gated=is_gated,
        vocabulary=math.ceil(amount(row, "vocab", VOCABULARY) / tile) * tile,
        experts=experts,
        top_k=round(amount(row, "moe_topk", 1.0)) if experts else 0,
        expert_ffn=round(amount(row, "moe_ffn", ffn)) if experts else 0,
        shared_ffn=round(amount(row, "moe_shared_ffn", 0.0)) if experts else 0,
        dense_layers=min(round(amount(row, "moe_dense_layers", 0.0)), layers) if experts else 0,
        latent=_DEEPSEEK if is_latent else None,
        unfused=not has_flash,
        dropout=0.0 if has_flash else DROPOUT,
    )


def _guessed(row: Row, name: str, tp: int, has_flash: bool) -> tuple[Decoder, str]:
    """A GPT of so many parameters as a token visits: 12 layers hidden^2, hidden = ASPECT layers."""
    billions = _active_billions(row, name)
    if billions <= 0:
        needed(row, "hidden")
    layers = max(1.0, round((billions * 1e9 / (12 * ASPECT**2)) ** (1 / 3)))
    hidden = ASPECT * layers
    stated = {"layers": f"{layers:g}", "hidden": f"{hidden:g}", "heads": f"{hidden / HEAD:g}"}
    own = {key: value for key, value in row.items() if not key.startswith(("moe_", "kv_", "head_"))}
    note = f"dimensions guessed from {billions:g} billion parameters a token"
    plain = {**own, **stated, "ffn": "", "glu": "", "model": "", "arch_family": ""}
    return _stated(plain, tp, has_flash), note


def _active_billions(row: Row, name: str) -> float:
    """Parameters that a token visits; 0 where nothing says how many."""
    known = next((own for pattern, own in _ACTIVE if re.search(pattern, name)), 0.0)
    active = re.search(r"(?:^|_)a(\d+(?:_\d+)?)b(?:_|$)", name)
    several = _SEVERAL.search(name)
    if known:
        return known
    if active:
        return _decimal(active[1])
    if several:
        total = SEVERAL_TOTAL * float(several[1]) * _decimal(several[2])
        return SEVERAL_ACTIVE * amount(row, "params_b", total)
    named = re.search(r"(?:^|[a-z_])(\d+(?:_\d+)?)b(?:_|$)", name)
    return amount(row, "params_b", _decimal(named[1]) if named else 0.0)


def _decimal(text: str) -> float:
    return float(text.replace("_", "."))
