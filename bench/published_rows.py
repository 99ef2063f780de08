"""Rows of published measurements as runs: what each column means, and what stands in for gaps.

Where a row is silent:

    dp                 gpus / (tp pp cp)
    tp, pp, cp, ep     1; vpp 1
    mbs                1; in compiled stacks without a pipeline all that a rank has; where layers
                       are made again, as many as have RECOMPUTED_NUMBERS numbers between layers
    kv_heads           heads; head_dim hidden / heads; ffn 4 hidden; glu 0; vocab 50,257
    layers, hidden, heads   all three silent: `bench.published_models`
    zero_stage         3 in stacks that shard parameters unless told otherwise, else 1
    fsdp_size          dp cp
    recompute          none for the time; for the memory none in Megatron-LM and what nobody knows,
                       elsewhere as many layers as have to, so that it fits
    seq_par            where tp > 1 in Megatron, NeMo, PyTorch's and compiled stacks
    flash_attn         1, but 0 for eager stacks
    framework          Megatron-LM
    gpus_per_node, intra_link, inter_gbps_per_gpu, hw_peak_tflops
                       the device's (`bench.closed_form.accelerators`); one of an unknown name
                       needs hw_peak_tflops

Where dp is stated and leaves devices over, and the batch has too few sequences for more, the rest
share sequences, as context ranks; so do ranks beyond a sequence each. A microbatch that no row says
is one that fits.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from bench.closed_form.accelerators import GB, TERA, Accelerator, accelerator, stand_in
from bench.closed_form.memory import (
    FUSED_LOGIT_BYTES,
    GRADIENT_BYTES,
    LOGIT_BYTES,
    MASTER_BYTES,
    memory,
)
from bench.closed_form.runs import (
    FULL,
    GENERATIONS,
    NONE,
    PRODUCTS,
    SELECTIVE,
    STACKS,
    Column,
    Runs,
)
from bench.published_models import model_of
from bench.published_table import (
    SILENT,
    NotPredictable,
    Row,
    amount,
    flag,
    measured,
    needed,
    text_of,
)

_COMPILED = re.compile(
    r"jax|maxtext|xla|pax|t5x|levanter|easylm|alpa|neuron|nxd|mindspore|mindformers"
)
# chosen: the first pattern found in a framework's name
_STACKS = (
    (r"fsdp|foundry|titan|automodel|accelerate|transformers|lightning|olmo|composer", "fsdp"),
    (r"intern|colossal|deepspeed", "zero"),
    (r"nemo|bridge|transformer.?engine", "nemo"),
    (r"megatron|mcore|flagscale|modellink|mindspeed|megascale", "megatron"),
    (_COMPILED.pattern, "compiled"),
    (r"paddle", "paddle"),
    (r"axolotl|hugging|factory|swift|trl|unsloth|fairscale|torch", "fsdp"),
)
# frameworks that shard parameters unless told otherwise
_SHARDED = re.compile(r"fsdp|foundry|titan|composer|jax|maxtext|levanter|easylm|t5x|pax")
# stacks whose recipes recompute where memory asks for it; the others only when told to
_RECIPES = ("fsdp", "zero", "nemo", "compiled")
# stacks that cut sequences wherever tensors are; the others only when told to
_SEQUENCE_PARALLEL = ("fsdp", "megatron", "nemo", "compiled")
_ADDED_IN_SINGLE = re.compile(r"fp32 (grad|accum)")
# published: microbatches of Megatron-LM's scripts for arXiv:2104.04473, table 1 (examples/sc21), of
# 1 to 16 sequences, have 2^25 to 2^27 numbers between two layers
RECOMPUTED_NUMBERS = 2.0**26
_FUSED_LOSS = re.compile(r"foundry|composer|liger|unsloth")  # published: their loss's kernel
ANOTHER_MODEL = 0.2  # chosen: data sheets and drivers differ by a tenth in what a GB is
_SINGLE = re.compile(r"(fp?|tf|float)[-_ ]?32|single|full$|32")
_EIGHT_BIT = re.compile(r"fp[-_ ]?[48]|float[-_ ]?[48]|int[-_ ]?8|e4m3|e5m2|hybrid|w8a8")
_FOUR_BIT = re.compile(r"fp[-_ ]?4|float[-_ ]?4|e2m1")
FOUR_BIT_RATE = 2.0  # published: of 8-bit products, B200, GB200 and MI355X; older devices have none
# published: share of products that stay in 16 bits where others have 4 (arXiv:2509.25149, 4.1)
WIDE_PRODUCTS = 0.15
# chosen: the first pattern found in what is recomputed
_RECOMPUTE = (
    (r"\b(no|none|not|without|off|false|disabled|unstated)\b|^0$", NONE),
    (r"selective.?op|products", PRODUCTS),
    (r"selective|attention|core", SELECTIVE),
    (r"full|uniform|block|all|checkpoint|enabled|yes|true|on$|1", FULL),
)
# what sharded data parallelism is called, and ZeRO's stage of it
_ZERO = (("hsdp", 3.0), ("fsdp", 3.0), ("full_shard", 3.0), ("grad_op", 2.0), ("ddp", 0.0))
# words for kernels of attention, and for sequences cut where tensors are
_FUSED = r"^(?!.*unfused).*(fa[234]|fl?ash|sdpa|cudnn|fused|splash|mem)"
_CUT = r"sp|seq|tp"


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows that can be predicted, the runs they describe, and why others cannot.

    reasons: by a row's place among those asked for; places: of the others. notes: of each run, what
    was taken from a relative.
    """

    rows: tuple[Row, ...]
    runs: Runs
    notes: tuple[str, ...]
    places: tuple[int, ...]
    reasons: Mapping[int, str]

    @property
    def sources(self) -> NDArray[np.str_]:
        return np.array([row.get("source_id") or "" for row in self.rows], str)

    @property
    def memory_bytes(self) -> Column:
        """What the fullest device shows as used."""
        return self._least(memory(self.runs).used, memory(self._recomputed).used)

    @property
    def fits(self) -> NDArray[np.bool_]:
        """Whether the fullest device has what is needed."""
        needed = self._least(memory(self.runs).needed, memory(self._recomputed).needed)
        return needed <= self.runs.memory_bytes

    @property
    def _recomputed(self) -> Runs:
        return replace(self.runs, recompute=np.full(len(self.runs), FULL))

    def _least(self, plain: Column, recomputed: Column) -> Column:
        """What recomputes is not always stated: in recipes as much as has to, so that it fits."""
        said = [text_of(row, "recompute") for row in self.rows]
        # "none" is an answer here
        silent = np.array([words in SILENT and words != "none" for words in said], bool)
        silent &= self.runs.of_stack({own: float(own in _RECIPES) for own in STACKS}) > 0
        least = np.maximum(recomputed, self.runs.memory_bytes)
        return np.where(silent, np.minimum(plain, least), plain)

    @property
    def measured_s(self) -> Column:
        """NaN where a row has none."""
        return np.array([measured(row, "step_time_s") for row in self.rows], float)


def rows_of(rows: Iterable[Row]) -> Rows:
    """Rows as runs; one that says too little gets a reason instead."""
    kept: list[Row] = []
    columns: list[dict[str, float]] = []
    notes: list[str] = []
    places: list[int] = []
    reasons: dict[int, str] = {}
    for place, row in enumerate(rows):
        try:
            own, note = _columns(row)
        except NotPredictable as error:
            reasons[place] = str(error)
            continue
        kept.append(row)
        places.append(place)
        columns.append(own)
        notes.append(note)
    names = [field.name for field in fields(Runs)]
    runs = Runs.of({name: [own[name] for own in columns] for name in names})
    return _fitting(Rows(tuple(kept), runs, tuple(notes), tuple(places), reasons))


def _fitting(rows: Rows) -> Rows:
    """With a microbatch that was not stated halved as long as that is what does not fit."""
    silent = np.array([np.isnan(measured(row, "mbs")) for row in rows.rows], bool)
    while (over := silent & ~rows.fits & (rows.runs.microbatch > 1)).any():
        less = np.maximum(rows.runs.microbatch / 2, 1.0)
        runs = replace(rows.runs, microbatch=np.where(over, less, rows.runs.microbatch))
        rows = replace(rows, runs=runs)
    return rows


def _columns(row: Row) -> tuple[dict[str, float], str]:
    device = _accelerator(row)
    model, filled = model_of(row)
    between_layers = needed(row, "seq_len") * model["hidden"]
    found = {**model, **_strategy(row, between_layers), **_device(row, device)}
    found["sequence"] = needed(row, "seq_len")
    stack = _stack(row, device)
    eager = stack == "eager"
    found["stack"] = STACKS.index(stack)
    precision = text_of(row, "precision")
    own = max(GRADIENT_BYTES[stack], found["number_bytes"])
    added = found["number_bytes"] + MASTER_BYTES
    found["gradient_bytes"] = added if _ADDED_IN_SINGLE.search(precision) else own
    if stack == "fsdp" and found["recompute"] == SELECTIVE:
        found["recompute"] = PRODUCTS  # as PyTorch's selective checkpointing does
    fused = _FUSED_LOSS.search(text_of(row, "framework")) is not None
    found["logit_bytes"] = FUSED_LOGIT_BYTES if fused else LOGIT_BYTES[stack]
    found["flash"] = flag(row, "flash_attn", 0.0 if eager else 1.0, _FUSED)
    framework = text_of(row, "framework")
    split = found["tp"] > 1 and stack in _SEQUENCE_PARALLEL
    found["sequence_parallel"] = flag(row, "seq_par", float(split), _CUT)
    found["per_tensor"] = float(eager and "deepspeed" in framework)
    kin = "" if device.relative is None else f"{device.name}: constants of {device.relative}"
    return found, "; ".join(filter(None, (kin, filled)))


def _accelerator(row: Row) -> Accelerator:
    """The row's device, or one of its peak where the name says nothing."""
    name = row.get("hw") or ""
    known = accelerator(name)
    if known is not None:
        return known
    peak = amount(row, "hw_peak_tflops", 0.0)
    if peak <= 0:
        raise NotPredictable(f"device {name!r} is not known, and hw_peak_tflops is not stated")
    return stand_in(name, peak * TERA, amount(row, "hbm_gb", 80.0) * 2.0**30)


def _strategy(row: Row, between_layers: float) -> dict[str, float]:
    """between_layers: numbers that one sequence has there."""
    devices, batch = needed(row, "gpus"), needed(row, "gbs")
    tp, pp, cp = (amount(row, name, 1.0) for name in ("tp", "pp", "cp"))
    microbatch = amount(row, "mbs", 1.0)
    silent = np.isnan(amount(row, "mbs", math.nan))
    left = devices / (tp * pp * cp)
    stated = amount(row, "dp", left)
    if stated < left and batch < left * microbatch:
        cp = devices / (tp * pp * stated)
    if batch < devices / (tp * pp * cp):
        cp = devices / (tp * pp * batch)
    dp = devices / (tp * pp * cp)
    if dp < 1:
        raise NotPredictable(f"tp {tp:g} * pp {pp:g} * cp {cp:g} is more than {devices:g} devices")
    each = max(batch / dp, 1.0)
    sharded = _SHARDED.search(text_of(row, "framework")) is not None
    if silent and pp == 1 and _COMPILED.search(text_of(row, "framework")):
        microbatch = each
    elif silent and _recompute(row) == FULL:
        microbatch = 2.0 ** math.floor(math.log2(max(RECOMPUTED_NUMBERS / between_layers, 1.0)))
    return {
        "dp": dp,
        "tp": tp,
        "pp": pp,
        "cp": cp,
        "ep": max(amount(row, "ep", 1.0), 1.0),
        "stages_per_rank": max(amount(row, "vpp", 1.0), 1.0),
        "zero": _zero_stage(row, 3.0 if sharded else 1.0),
        "sharded": max(amount(row, "fsdp_size", dp * cp), 1.0),
        "microbatch": min(microbatch, each),
        "batch": batch,
        "recompute": _recompute(row),
    }


def _device(row: Row, device: Accelerator) -> dict[str, float]:
    precision = text_of(row, "precision")
    eight_bit = _EIGHT_BIT.search(precision) is not None
    single = _SINGLE.match(precision) is not None
    four_bit = _FOUR_BIT.search(precision) is not None
    sheet = device.eight_bit_flops_per_s if eight_bit else device.flops_per_s
    sheet = device.single_flops_per_s if single else sheet
    sheet = FOUR_BIT_RATE * sheet if four_bit and device.generation == "blackwell" else sheet
    peak = amount(row, "hw_peak_tflops", sheet / TERA) * TERA
    if four_bit:
        peak = 1 / ((1 - WIDE_PRODUCTS) / peak + WIDE_PRODUCTS / device.flops_per_s)
    link = re.search(r"([1-9]\d*(?:\.\d+)?) ?gb/s", text_of(row, "intra_link"))
    inside = float(link[1]) * GB if link else device.inside_bytes_per_s
    port = amount(row, "inter_gbps_per_gpu", device.between_bytes_per_s * 8 / GB) / 8 * GB
    return {
        "peak_flops_per_s": device.best_product * (min(peak, sheet) if single else peak),
        "attention_flops_per_s": sheet if single else device.flops_per_s,
        "number_bytes": 4.0 if single else 2.0,
        "memory_bytes_per_s": device.memory_bytes_per_s,
        "memory_bytes": _memory_bytes(row, device),
        "per_node": max(amount(row, "gpus_per_node", float(device.per_node)), 1.0),
        "inside_bytes_per_s": inside,
        "between_bytes_per_s": port,
        "generation": float(GENERATIONS.index(device.generation)),
        "eight_bit": float(eight_bit),
    }


def _recompute(row: Row) -> float:
    text = text_of(row, "recompute")
    return next((kind for pattern, kind in _RECOMPUTE if re.search(pattern, text)), NONE)


def _zero_stage(row: Row, default: float) -> float:
    """Of a number, of words that have one ("ZeRO-2"), or of a name."""
    text = text_of(row, "zero_stage")
    stage = re.search(r"[0-3]", text)
    if stage:
        return float(stage[0])
    return next((kind for name, kind in _ZERO if name in text), default)


def _memory_bytes(row: Row, device: Accelerator) -> float:
    """As `hbm_gb` says where that is another model of the device."""
    stated = amount(row, "hbm_gb", 0.0) * 2.0**30
    own = device.memory_bytes
    return stated if stated > 0 and abs(math.log(stated / own)) > ANOTHER_MODEL else own


def _stack(row: Row, device: Accelerator) -> str:
    framework = text_of(row, "framework")
    fused = flag(row, "flash_attn", float(device.flash), _FUSED) > 0
    if device.generation == "ampere" and not fused and not _COMPILED.search(framework):
        return "eager"
    for pattern, stack in _STACKS:
        if re.search(pattern, framework):
            return stack
    return "other" if framework.strip() else "megatron"
