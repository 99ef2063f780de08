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

Row = Mapping[str, str]
Model = dict[str, float]

_HYBRIDS = Path(__file__).parent / "data" / "hybrid_models.json"
_LATENT = re.compile(r"mla|deepseek[-_ ]?(v[23]|r1)|kimi[-_ ]?k2")
# published: DeepSeek-V3 (arXiv:2412.19437), section 4.2: ranks of queries and of keys and values,
# head dimensions with and without rotation
_QUERY_RANK, _KEY_RANK, _PLAIN, _ROTATED = 1536, 512, 128, 64
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


_SILENT = ("", "-", "?", "auto", "n/a", "na", "nan", "none", "unknown", "unstated")
_WORDS = {"true": 1.0, "yes": 1.0, "on": 1.0, "false": 0.0, "no": 0.0, "off": 0.0}


class NotPredictable(ValueError):
    """A row that says too little; the message says what lacks."""


def model_of(row: Row) -> tuple[Model, str]:
    """Columns of a run, and a note on what was filled in."""
    if any((row.get(name) or "").strip() for name in ("layers", "hidden", "heads")):
        return _stated(row), ""
    name = re.sub(r"[-. ]+", "_", (row.get("model") or "").lower())
    for known, own in _hybrids().items():
        if name.startswith(known):
            return _hybrid(row, own), f"dimensions of {known}"
    return _guessed(row, name)


def _stated(row: Row) -> Model:
    hidden, heads = needed(row, "hidden"), needed(row, "heads")
    layers = needed(row, "layers")
    experts = number(row, "moe_experts", 0.0)
    kv_heads = number(row, "kv_heads", heads)
    head_dim = number(row, "head_dim", hidden / heads)
    qkv = (heads + 2 * kv_heads) * head_dim
    if _LATENT.search(f"{row.get('arch_family') or ''} {row.get('model') or ''}".lower()):
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
        "ffn": number(row, "ffn", 0.0 if experts else 4 * hidden),
        "ups": 2.0 if number(row, "glu", 0.0) > 0 else 1.0,
        "vocabulary": number(row, "vocab", 50257.0),
        "experts": experts,
        "top_k": number(row, "moe_topk", 1.0 if experts else 0.0),
        "expert_ffn": number(row, "moe_ffn", number(row, "ffn", 0.0)) if experts else 0.0,
        "shared_ffn": number(row, "moe_shared_ffn", 0.0) if experts else 0.0,
        "expert_ups": 2.0,
        "expert_hidden": hidden,
        "dense_layers": number(row, "moe_dense_layers", 0.0) if experts else layers,
        "attention_layers": layers,
        "attended": _attended(row),
        "state_layers": 0.0,
        "state_inner": 0.0,
        "state_width": 0.0,
    }


def _attended(row: Row) -> float:
    """Of s^2 / 2 pairs of tokens, the share that a window of w leaves: (2 w s - w^2) / s^2."""
    for pattern, window, layers in _WINDOWS:
        if re.search(pattern, (row.get("model") or "").lower()):
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
        "vocabulary": number(row, "vocab", VOCABULARY),
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
    active = re.search(r"(?:^|_)a(\d+(?:_\d+)?)b(?:_|$)", name)
    total = re.search(r"(?:^|[a-z_])(\d+(?:_\d+)?)b(?:_|$)", name)
    found = active or total
    billions = float(found[1].replace("_", ".")) if found else 0.0
    if not active:
        billions = number(row, "params_b", billions)
    if billions <= 0:
        needed(row, "hidden")
    layers = max(1.0, round((billions * 1e9 / (12 * ASPECT**2)) ** (1 / 3)))
    hidden = ASPECT * layers
    stated = {"layers": f"{layers:g}", "hidden": f"{hidden:g}", "heads": f"{hidden / HEAD:g}"}
    own = {key: value for key, value in row.items() if not key.startswith(("moe_", "kv_", "head_"))}
    note = f"dimensions guessed from {billions:g} billion parameters a token"
    return _stated({**own, **stated, "ffn": "", "glu": ""}), note


@cache
def _hybrids() -> Mapping[str, Mapping[str, float | str]]:
    models = json.loads(_HYBRIDS.read_text(encoding="utf-8"))["models"]
    return {str(name): own for name, own in models.items()}


def needed(row: Row, name: str) -> float:
    """A positive number; NotPredictable where the row has none."""
    found = number(row, name, float("nan"))
    if not found > 0:
        raise NotPredictable(f"{name} is {row.get(name) or 'not stated'!r}, needed: a number")
    return found


def number(row: Row, name: str, default: float) -> float:
    """A column's number, `default` where it is silent; NotPredictable for what is no number."""
    text = (row.get(name) or "").strip().lower()
    if text in _SILENT:
        return default
    try:
        return _WORDS[text] if text in _WORDS else float(text.replace(",", ""))
    except ValueError:
        raise NotPredictable(f"{name} is {text!r}, needed: a number") from None
