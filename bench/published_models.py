"""What a row says of its model, as columns of a run, and what stands in where it says little.

A row with `layers`, `hidden` and `heads` is taken at its word. Latent attention (DeepSeek, Kimi)
has narrower products than its heads: `arch_family` says so. Hybrids of state spaces and attention
are known by name (`bench/data/hybrid_models.json`). For any other row a model's parameters stand
in, `params_b` or as its name says them (`llama-7b`, `30b-a3b`): a GPT whose width is 128 times its
depth. Models whose tokens see a window only are known by name too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from bench.published_table import Row, amount, flag, needed, text_of

Model = dict[str, float]

_HYBRIDS = Path(__file__).parent / "data" / "hybrid_models.json"
_LATENT = re.compile(r"mla|deepseek[-_ ]?(v[23]|r1)|kimi[-_ ]?k2")
# published: DeepSeek-V3 (arXiv:2412.19437), section 4.2: ranks of queries and of keys and values,
# head dimensions with and without rotation
_QUERY_RANK, _KEY_RANK, _PLAIN, _ROTATED = 1536, 512, 128, 64
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
# pattern of the name, tokens of a window, share of the layers that have one
_WINDOWS = (
    # published: arXiv:2508.10925, section 2.2; arXiv:2310.06825, table 1; arXiv:2408.00118, section
    # 2; arXiv:2503.19786, section 2
    (r"gpt[-_ ]?oss", 128.0, 1 / 2),
    (r"mistral[-_ ]?7b", 4096.0, 1.0),
    (r"gemma[-_ ]?2", 4096.0, 1 / 2),
    (r"gemma[-_ ]?3", 1024.0, 5 / 6),
)
VOCABULARY = 131_072.0  # of the hybrids
ASPECT = 128.0  # chosen: hidden numbers a layer, as GPT-3 and Llama have 100 to 160
HEAD = 128.0


def model_of(row: Row) -> tuple[Model, str]:
    """Columns of a run, and a note on what was filled in."""
    if any(text_of(row, name) for name in ("layers", "hidden", "heads")):
        return _stated(row), ""
    name = re.sub(r"[-. ]+", "_", text_of(row, "model"))
    for known, own in _hybrids().items():
        if name.startswith(known):
            return _hybrid(row, own), f"dimensions of {known}"
    return _guessed(row, name)


def _stated(row: Row) -> Model:
    hidden, heads = needed(row, "hidden"), needed(row, "heads")
    layers = needed(row, "layers")
    experts = amount(row, "moe_experts", 0.0)
    kv_heads = amount(row, "kv_heads", heads)
    head_dim = amount(row, "head_dim", hidden / heads)
    qkv = (heads + 2 * kv_heads) * head_dim
    if _LATENT.search(f"{text_of(row, 'arch_family')} {text_of(row, 'model')}"):
        queries = _QUERY_RANK * (hidden + heads * (_PLAIN + _ROTATED))
        keys = hidden * (_KEY_RANK + _ROTATED) + _KEY_RANK * heads * 2 * _PLAIN
        qkv = (queries + keys) / hidden
    return {
        "layers": layers,
        "hidden": hidden,
        "heads": heads,
        "kv_heads": kv_heads,
        "head_dim": head_dim,
        "qkv_width": qkv,
        "ffn": amount(row, "ffn", 0.0 if experts else 4 * hidden),
        "ups": 1.0 + flag(row, "glu", 0.0, "glu"),
        "vocabulary": amount(row, "vocab", 50257.0),
        "experts": experts,
        "top_k": amount(row, "moe_topk", 1.0 if experts else 0.0),
        "expert_ffn": amount(row, "moe_ffn", amount(row, "ffn", 0.0)) if experts else 0.0,
        "shared_ffn": amount(row, "moe_shared_ffn", 0.0) if experts else 0.0,
        "expert_ups": 2.0,
        "expert_hidden": hidden,
        "dense_layers": min(amount(row, "moe_dense_layers", 0.0), layers) if experts else layers,
        "attention_layers": layers,
        "attended": _attended(row),
        "state_layers": 0.0,
        "state_inner": 0.0,
        "state_width": 0.0,
    }


def _attended(row: Row) -> float:
    """Of s^2 / 2 pairs of tokens, the share that a window of w leaves: (2 w s - w^2) / s^2."""
    for pattern, window, layers in _WINDOWS:
        if re.search(pattern, text_of(row, "model")):
            part = min(window / needed(row, "seq_len"), 1.0)
            return 1 - layers * (1 - part) ** 2
    return 1.0


def _hybrid(row: Row, own: Mapping[str, float | str]) -> Model:
    """A layer is what mixes tokens, with the feed-forward parts' mean after it."""
    size = {name: float(value) for name, value in own.items() if name != "pattern"}
    pattern = str(own["pattern"])
    mixers = float(pattern.count("M") + pattern.count("*"))
    experts = size.get("experts", 0.0)
    inner = size["state_heads"] * size["state_head_dim"]
    groups = 2 * size["state_groups"] * size["state_size"]
    routed = float(pattern.count("E"))
    dense = float(pattern.count("-"))
    return {
        "layers": mixers,
        "hidden": size["hidden"],
        "heads": size["heads"],
        "kv_heads": size["kv_heads"],
        "head_dim": size["head_dim"],
        "qkv_width": (size["heads"] + 2 * size["kv_heads"]) * size["head_dim"],
        "ffn": size["ffn"] * dense / max(mixers - routed, 1.0),
        "ups": 1.0,
        "vocabulary": amount(row, "vocab", VOCABULARY),
        "experts": experts,
        "top_k": size.get("top_k", 0.0),
        "expert_ffn": size.get("expert_ffn", 0.0),
        "shared_ffn": size.get("shared_ffn", 0.0),
        "expert_ups": 1.0,
        "expert_hidden": size.get("expert_hidden", size["hidden"]),
        "dense_layers": mixers - routed,
        "attention_layers": float(pattern.count("*")),
        "attended": 1.0,
        "state_layers": float(pattern.count("M")),
        "state_inner": inner,
        "state_width": 2 * inner + groups + size["state_heads"],
    }


def _guessed(row: Row, name: str) -> tuple[Model, str]:
    """A GPT of so many parameters as a token visits: 12 layers hidden^2, hidden = ASPECT layers."""
    billions = _active_billions(row, name)
    if billions <= 0:
        needed(row, "hidden")
    layers = max(1.0, round((billions * 1e9 / (12 * ASPECT**2)) ** (1 / 3)))
    hidden = ASPECT * layers
    stated = {"layers": f"{layers:g}", "hidden": f"{hidden:g}", "heads": f"{hidden / HEAD:g}"}
    own = {key: value for key, value in row.items() if not key.startswith(("moe_", "kv_", "head_"))}
    note = f"dimensions guessed from {billions:g} billion parameters a token"
    return _stated({**own, **stated, "ffn": "", "glu": "", "model": "", "arch_family": ""}), note


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


@cache
def _hybrids() -> Mapping[str, Mapping[str, float | str]]:
    models = json.loads(_HYBRIDS.read_text(encoding="utf-8"))["models"]
    return {str(name): own for name, own in models.items()}
