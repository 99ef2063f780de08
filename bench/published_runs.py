"""A published configuration as a row of `bench.published`: the other of our two predictions.

The planner prices a plan op by op, `bench.closed_form` a run from its dimensions; where both
say something of one configuration, how far apart they are says how sure either is.
"""

from __future__ import annotations

from bench.closed_form.profile import published_profile
from bench.closed_form.step import steps
from bench.published_rows import rows_of
from bench.published_table import Row
from meshwright.schema import Degrees, Pipeline

_LLAMA = {"kv_heads": 8, "glu": 1, "vocab": 128256, "seq_len": 8192}
# published: the models' own papers, as in examples/graphs; names of columns: bench/data/steps.csv
MODELS: dict[str, dict[str, int]] = {
    "gpt3-175b": {"layers": 96, "hidden": 12288, "heads": 96, "ffn": 49152, "seq_len": 2048},
    "llama3-8b": {"layers": 32, "hidden": 4096, "heads": 32, "ffn": 14336, **_LLAMA},
    "llama3-70b": {"layers": 80, "hidden": 8192, "heads": 64, "ffn": 28672, **_LLAMA},
    "llama3-405b": {"layers": 126, "hidden": 16384, "heads": 128, "ffn": 53248, **_LLAMA},
    "mixtral-8x7b": {
        "layers": 32, "hidden": 4096, "heads": 32, "kv_heads": 8, "ffn": 14336, "glu": 1,
        "vocab": 32000, "seq_len": 4096, "moe_experts": 8, "moe_topk": 2, "moe_ffn": 14336,
    },
}  # fmt: skip
HARDWARE = {"a100-80g": "A100-SXM-80GB", "h100": "H100-SXM"}


def run_of(
    graph: str,
    topology: str,
    *,
    devices: int,
    batch: int,
    microbatches: int,
    degrees: Degrees,
    pipeline: Pipeline,
    sequence: int | None,
    recompute: str,
) -> Row:
    """As Megatron-LM runs it, with a fused kernel of attention, which a plan's is too."""
    ranks = pipeline.ranks or 1
    dp = devices // (ranks * degrees.tp * degrees.cp)
    columns: dict[str, object] = {
        **MODELS[graph],
        "hw": HARDWARE[topology.rsplit("-", 1)[0]],
        "gpus": devices,
        "tp": degrees.tp,
        "cp": degrees.cp,
        "ep": degrees.ep,
        "pp": ranks,
        "vpp": pipeline.stages_per_rank or 1,
        "zero_stage": degrees.zero,
        "seq_par": int(degrees.sequence_parallel),
        "recompute": recompute,
        "gbs": batch,
        "mbs": max(1, batch // (dp * microbatches)),
        "precision": "bf16",
        "framework": "Megatron-LM",
        "flash_attn": 1,
    }
    if sequence is not None:
        columns["seq_len"] = sequence
    return {name: str(value) for name, value in columns.items()}


def predicted_s(row: Row) -> float:
    """Its step, by the constants that were fitted to published steps."""
    found = rows_of([row])
    assert not found.reasons, found.reasons
    return float(steps(found.runs, published_profile().constants).total[0])
