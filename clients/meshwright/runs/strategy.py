"""The degrees of a row, and what stands in for those that it does not say.

    dp            gpus / (tp pp cp)
    tp, pp, cp, ep     1; vpp 1
    mbs           1; in compiled stacks without a pipeline all that a rank has; where layers are
                  recomputed, as many as have RECOMPUTED_NUMBERS numbers between layers
    zero_stage    3 in stacks that shard parameters unless told otherwise, else 1
    fsdp_size     dp cp
    recompute     none
    seq_par       where tp > 1 in Megatron, NeMo, PyTorch's and compiled stacks
    flash_attn    1, but 0 on devices that have no fused kernel
    framework     Megatron-LM

Where dp is stated and leaves devices over, and the batch has too few sequences for more, the rest
share sequences, as context ranks; so do ranks beyond a sequence each.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from meshwright.runs.table import (
    SILENT,
    NotPredictable,
    Row,
    amount,
    count,
    flag,
    needed,
    text_of,
)
from meshwright.schema import RecomputePolicy
from meshwright.schema.graph import DType
from meshwright.schema.setup import Precision
from meshwright.schema.stack import Stack

_COMPILED = re.compile(
    r"jax|maxtext|xla|pax|t5x|levanter|easylm|alpa|neuron|nxd|mindspore|mindformers"
)
_PYTORCH = re.compile(
    r"fsdp|foundry|titan|automodel|accelerate|transformers|lightning|olmo|composer|axolotl|hugging"
    r"|factory|swift|trl|unsloth|fairscale|torch"
)
# frameworks that shard parameters unless told otherwise
_SHARDED = re.compile(r"fsdp|foundry|titan|composer|jax|maxtext|levanter|easylm|t5x|pax")
# frameworks that cut sequences where tensors are cut only when told to
_WITHOUT_SEQUENCE_PARALLEL = re.compile(r"intern|colossal|deepspeed|paddle")
# the first word that a framework's name has -> its profile; DeepSpeed's own ZeRO has none
_STACKS: tuple[tuple[str, Stack | None], ...] = (
    ("automodel", None), ("zero", None), ("deepspeed", "megatron-deepspeed"),
    ("foundry", "llm-foundry"), ("titan", "torchtitan"), ("intern", "internevo"),
    ("megatron", "megatron-core"),
    ("nemo", "megatron-core"), ("mcore", "megatron-core"), ("flagscale", "megatron-core"),
)  # fmt: skip
# published: microbatches of Megatron-LM's scripts for arXiv:2104.04473, table 1 (examples/sc21), of
# 1 to 16 sequences, have 2^25 to 2^27 numbers between two layers
RECOMPUTED_NUMBERS = 2.0**26
# chosen: the first pattern found in what is recomputed
_RECOMPUTE: tuple[tuple[str, RecomputePolicy], ...] = (
    (r"\b(no|none|not|without|off|false|disabled|unstated)\b|^0$", "none"),
    (r"selective.?op|products", "cheap"),
    (r"selective|attention|core", "selective"),
    (r"full|uniform|block|all|checkpoint|enabled|yes|true|on$|1", "full"),
)
# what sharded data parallelism is called, and ZeRO's stage of it
_ZERO = (("hsdp", 3), ("fsdp", 3), ("full_shard", 3), ("grad_op", 2), ("ddp", 0))
# words for kernels of attention, and for sequences cut where tensors are
_FUSED = r"^(?!.*unfused).*(fa[234]|fl?ash|sdpa|cudnn|fused|splash|mem)"
_CUT = r"sp|seq|tp"
_SINGLE = re.compile(r"(fp?|tf|float)[-_ ]?32|single|full$|32")
_EIGHT_BIT = re.compile(r"fp[-_ ]?[48]|float[-_ ]?[48]|int[-_ ]?8|e4m3|e5m2|hybrid|w8a8")
# published: Megatron-LM, --accumulate-allreduce-grads-in-fp32 with bf16; NeMo and Megatron-Bridge,
# gradients in the parameters' dtype in their performance recipes
_ADDS_IN_SINGLE = re.compile(r"megatron|mcore|flagscale|modellink|mindspeed|^$")
_NEMO = re.compile(r"nemo|bridge|transformer.?engine")
_SINGLE_GRADIENTS = re.compile(r"fp32 (grad|accum)")
_RECIPES: tuple[tuple[str, Precision], ...] = (
    ("mx", "mxfp8"), ("fp4", "mxfp8"), ("block", "fp8_blockwise"), ("subchannel", "fp8_blockwise"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Strategy:
    """The degrees of a run. zero_size: the ranks that ZeRO shards over, None for all of dp and cp.

    is_microbatch_stated, is_recompute_stated: whether the row says them; frameworks without recipes
    recompute only when told to.
    """

    devices: int
    batch: int
    dp: int
    tp: int
    pp: int
    cp: int
    ep: int
    stages_per_rank: int
    zero: int
    zero_size: int | None
    sequence_parallel: bool
    microbatch: int
    is_microbatch_stated: bool
    recompute: RecomputePolicy
    is_recompute_stated: bool

    @property
    def microbatches(self) -> int:
        """Microbatches of each pipeline. Raises NotPredictable where they are not equal."""
        if self.batch % (self.dp * self.microbatch):
            raise NotPredictable(
                f"a batch of {self.batch} is no whole number of microbatches of {self.microbatch} "
                f"sequences on dp {self.dp}"
            )
        return self.batch // (self.dp * self.microbatch)


def strategy_of(row: Row) -> Strategy:
    """The strategy of a row. Raises NotPredictable where it does not fit the devices."""
    framework = text_of(row, "framework")
    devices, batch = (max(1, round(needed(row, name))) for name in ("gpus", "gbs"))
    tp, pp, cp = (count(row, name) for name in ("tp", "pp", "cp"))
    is_stated = not math.isnan(amount(row, "mbs", math.nan))
    microbatch = count(row, "mbs")
    left = devices / (tp * pp * cp)
    stated = amount(row, "dp", left)
    if stated < left and batch < left * microbatch:
        cp = max(1, round(devices / (tp * pp * stated)))
    if batch < devices / (tp * pp * cp):
        cp = max(1, round(devices / (tp * pp * batch)))
    dp = devices // (tp * pp * cp)
    if tp * pp * cp * dp != devices:
        raise NotPredictable(f"dp {dp} · tp {tp} · pp {pp} · cp {cp} are not {devices} devices")
    each = max(batch // dp, 1)
    policy = recompute_of(row)
    if not is_stated and pp == 1 and _COMPILED.search(framework):
        microbatch = each
    elif not is_stated and policy == "full":
        numbers = needed(row, "seq_len") * amount(row, "hidden", 1.0)
        microbatch = 2 ** math.floor(math.log2(max(RECOMPUTED_NUMBERS / numbers, 1.0)))
    sharded = count(row, "fsdp_size", dp * cp)
    cuts = tp > 1 and not _WITHOUT_SEQUENCE_PARALLEL.search(framework)
    return Strategy(
        devices=devices,
        batch=batch,
        dp=dp,
        tp=tp,
        pp=pp,
        cp=cp,
        ep=count(row, "ep"),
        stages_per_rank=count(row, "vpp"),
        zero=_zero_stage(row, 3 if _SHARDED.search(framework) else 1),
        zero_size=sharded if sharded < dp * cp else None,
        sequence_parallel=flag(row, "seq_par", float(cuts), _CUT) > 0 and tp > 1,
        microbatch=min(microbatch, each),
        is_microbatch_stated=is_stated,
        recompute=policy,
        is_recompute_stated=(
            text_of(row, "recompute") not in {*SILENT} - {"none"} or not _has_recipes(framework)
        ),
    )


def _has_recipes(framework: str) -> bool:
    """Whether a framework's recipes recompute where memory asks for it."""
    recipes = _PYTORCH, _COMPILED, _NEMO, _WITHOUT_SEQUENCE_PARALLEL
    return any(pattern.search(framework) for pattern in recipes)


def recompute_of(row: Row) -> RecomputePolicy:
    """The recomputation policy of a row; PyTorch's selective checkpointing repeats products too."""
    text = text_of(row, "recompute")
    found = [kind for pattern, kind in _RECOMPUTE if re.search(pattern, text)]
    policy = found[0] if found else "none"
    if policy == "selective" and _PYTORCH.search(text_of(row, "framework")):
        return "cheap"
    return policy


def _zero_stage(row: Row, default: int) -> int:
    """Of a number, of words that have one ("ZeRO-2"), or of a name."""
    text = text_of(row, "zero_stage")
    stage = re.search(r"[0-3]", text)
    if stage:
        return int(stage[0])
    return next((kind for name, kind in _ZERO if name in text), default)


def stack_of(row: Row) -> Stack | None:
    """The software stack of a row's framework; None where it has no profile."""
    framework = text_of(row, "framework")
    return next((stack for word, stack in _STACKS if word in framework), None)


def dtype_of(row: Row) -> DType:
    """The dtype of a row's activations."""
    precision = text_of(row, "precision")
    if _SINGLE.match(precision) and not _EIGHT_BIT.search(precision):
        return "float32"
    return "float16" if re.search(r"fp16|float16|half", precision) else "bfloat16"


def precision_of(row: Row) -> Precision:
    """The precision recipe of a row's products. Four bits are taken for eight."""
    precision = text_of(row, "precision")
    if not _EIGHT_BIT.search(precision):
        return "graph"
    return next((recipe for word, recipe in _RECIPES if word in precision), "fp8_tensorwise")


def gradient_dtype_of(row: Row, *, dtype: DType, is_fused: bool) -> DType:
    """The dtype in which gradients are added up and reduced.

    dtype: of activations. is_fused: whether attention is one kernel.

    Megatron-LM (since it has fused attention) and compiled stacks add up in float32 unless told
    otherwise, the others and NeMo's recipes in the dtype of the parameters.
    """
    framework, precision = text_of(row, "framework"), text_of(row, "precision")
    single = _ADDS_IN_SINGLE.search(framework) and not _NEMO.search(framework) and is_fused
    if single or _COMPILED.search(framework) or _SINGLE_GRADIENTS.search(precision):
        return "float32"
    return dtype


def has_flash(row: Row, *, default: bool) -> bool:
    """Whether attention is one kernel. default: of the device."""
    return flag(row, "flash_attn", float(default), _FUSED) > 0
