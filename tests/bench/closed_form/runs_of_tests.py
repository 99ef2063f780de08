"""One GPT layer on one device, from which tests change what they are about."""

from __future__ import annotations

from typing import Any

import numpy as np

from bench.closed_form.constants import PRIOR, Constants
from bench.closed_form.memory import GRADIENT_BYTES, LOGIT_BYTES
from bench.closed_form.runs import NONE, STACKS, Runs

PRIORS = Constants(PRIOR)
EAGER = STACKS.index("eager")
MEGATRON = STACKS.index("megatron")
OTHER = STACKS.index("other")


def a_run(**changed: Any) -> Runs:
    """GPT with 4,096 hidden numbers and 32 heads, 1,024 tokens, 4 sequences; peak 1e14 FLOP/s."""
    stacks = np.atleast_1d(changed.get("stack", MEGATRON))
    gradients = [GRADIENT_BYTES[STACKS[each]] for each in stacks]
    logits = [LOGIT_BYTES[STACKS[each]] for each in stacks]
    columns: dict[str, Any] = {
        "layers": 8, "hidden": 4096, "heads": 32, "kv_heads": 32, "head_dim": 128,
        "qkv_width": (changed.get("heads", 32) + 2 * changed.get("kv_heads", 32))
        * changed.get("head_dim", 128),
        "ffn": 16384, "ups": 1, "vocabulary": 50_000, "sequence": 1024, "experts": 0, "top_k": 0,
        "expert_ffn": 0, "shared_ffn": 0, "expert_ups": 2, "expert_hidden": 4096, "dense_layers": 8,
        "attention_layers": changed.get("layers", 8), "attended": 1, "state_layers": 0,
        "state_inner": 0, "state_width": 0, "number_bytes": 2, "peak_flops_per_s": 1e14,
        "attention_flops_per_s": 1e14, "memory_bytes_per_s": 1e12, "memory_bytes": 80 * 2**30,
        "per_node": 8, "inside_bytes_per_s": 3e11, "between_bytes_per_s": 2.5e10,
        "generation": 0, "eight_bit": 0, "dp": 1, "tp": 1, "pp": 1, "cp": 1, "ep": 1,
        "stages_per_rank": 1, "zero": 0, "gradient_bytes": gradients, "logit_bytes": logits,
        "sharded": 1,
        "microbatch": 1, "batch": 4, "recompute": NONE, "sequence_parallel": 0, "flash": 1,
        "stack": MEGATRON, "per_tensor": 0,
    }  # fmt: skip
    return Runs.of({**columns, **changed})
