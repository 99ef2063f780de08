"""Strategies of rows: degrees, and what stands in for those that a row does not say."""

from __future__ import annotations

import pytest

from meshwright.runs.strategy import (
    dtype_of,
    gradient_dtype_of,
    precision_of,
    recompute_of,
    stack_of,
    strategy_of,
)
from meshwright.runs.table import NotPredictable
from tests.clients.runs.test_table import ROW


@pytest.mark.parametrize(
    ("said", "dtype", "recipe"),
    [
        ("bf16", "bfloat16", "graph"), ("fp16", "float16", "graph"), ("half", "float16", "graph"),
        ("bf16 (fp32 grad accum)", "bfloat16", "graph"), ("16-mixed", "bfloat16", "graph"),
        ("fp8", "bfloat16", "fp8_tensorwise"), ("FP8-hybrid", "bfloat16", "fp8_tensorwise"),
        ("mxfp8", "bfloat16", "mxfp8"), ("FP8-blockwise", "bfloat16", "fp8_blockwise"),
        ("NVFP4", "bfloat16", "mxfp8"), ("tf32", "float32", "graph"), ("32", "float32", "graph"),
        ("", "bfloat16", "graph"),
    ],
)  # fmt: skip
def test_precisions_have_many_names(said: str, dtype: str, recipe: str) -> None:
    row = {**ROW, "precision": said}
    assert (dtype_of(row), precision_of(row)) == (dtype, recipe)


@pytest.mark.parametrize(
    ("framework", "precision", "dtype"),
    [
        ("Megatron-LM", "bf16", "float32"), ("", "", "float32"), ("MaxText", "bf16", "float32"),
        ("NeMo 24.07", "bf16", "bfloat16"), ("Megatron-Bridge", "fp8", "bfloat16"),
        ("torchtitan", "bf16", "bfloat16"), ("InternEvo", "fp16", "float16"),
        ("InternEvo", "bf16 (fp32 grad accum)", "float32"),
    ],
)  # fmt: skip
def test_gradients_are_added_up_as_frameworks_do(
    framework: str, precision: str, dtype: str
) -> None:
    row = {**ROW, "framework": framework, "precision": precision}
    assert gradient_dtype_of(row, dtype=dtype_of(row), is_fused=True) == dtype


@pytest.mark.parametrize(
    ("framework", "stack"),
    [
        ("torchtitan", "torchtitan"), ("Megatron-Bridge 26.06", "megatron-core"),
        ("NeMo 24.07", "megatron-core"), ("Megatron-LM", "megatron-core"),
        ("Megatron-DeepSpeed (BLOOM fork)", "megatron-deepspeed"), ("InternEvo", "internevo"),
        ("llm-foundry/Composer FSDP", "llm-foundry"), ("DeepSpeed ZeRO-3 in Megatron-LM", None),
        ("NeMo AutoModel", None), ("MaxText", None), ("", None),
    ],
)  # fmt: skip
def test_frameworks_have_their_stacks(framework: str, stack: str | None) -> None:
    assert stack_of({**ROW, "framework": framework}) == stack


@pytest.mark.parametrize(
    ("said", "stage"), [("3", 3), ("ZeRO-2", 2), ("stage1", 1), ("FSDP", 3), ("DDP", 0), ("?", 1)]
)
def test_stages_of_zero_have_names(said: str, stage: int) -> None:
    assert strategy_of({**ROW, "zero_stage": said}).zero == stage


def test_frameworks_that_shard_parameters_do_so_where_a_row_is_silent() -> None:
    names = {"torchtitan": 3, "MaxText": 3, "Megatron-LM": 1, "": 1, "DeepSpeed": 1}
    for name, stage in names.items():
        assert strategy_of({**ROW, "framework": name}).zero == stage
    assert strategy_of({**ROW, "framework": "MaxText", "zero_stage": "1"}).zero == 1


def test_words_stand_for_numbers_and_for_silence() -> None:
    row = {**ROW, "seq_par": "yes", "cp": "n/a", "gbs": "1,024", "vpp": "-"}
    found = strategy_of(row)
    assert (found.sequence_parallel, found.cp, found.batch, found.stages_per_rank) == (
        True, 1, 1024, 1,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("said", "framework", "policy"),
    [
        ("full", "", "full"), ("Full (uniform)", "", "full"), ("yes", "", "full"),
        ("selective", "", "selective"), ("selective-op", "", "cheap"), ("none", "", "none"),
        ("unstated", "", "none"), ("", "", "none"), ("selective", "torchtitan", "cheap"),
    ],
)  # fmt: skip
def test_recomputation_has_many_names(said: str, framework: str, policy: str) -> None:
    assert recompute_of({**ROW, "recompute": said, "framework": framework}) == policy


def test_a_rank_computes_no_more_sequences_at_a_time_than_it_has() -> None:
    # 64 devices, tp 2, 512 sequences: 16 for each of 32 ranks
    assert strategy_of({**ROW, "mbs": "64"}).microbatch == 16
    assert strategy_of({**ROW, "framework": "MaxText"}).microbatch == 16
    assert strategy_of({**ROW, "framework": "MaxText", "pp": "2"}).microbatch == 1
    assert strategy_of(ROW).microbatch == 1


def test_what_is_recomputed_lets_a_microbatch_have_more_sequences() -> None:
    # 4,096 tokens of 4,096 numbers are 2^24: four sequences; as many as scripts of arXiv:2104.04473
    # have for 7.5 and 310 billion parameters, within a factor of two
    assert strategy_of({**ROW, "recompute": "full"}).microbatch == 4
    assert strategy_of({**ROW, "recompute": "full", "mbs": "1"}).microbatch == 1
    table = {16: ("2048", "4096"), 1: ("2048", "16384")}
    for sequences, (tokens, hidden) in table.items():
        row = {**ROW, "recompute": "full", "seq_len": tokens, "hidden": hidden}
        assert 0.5 <= strategy_of(row).microbatch / sequences <= 2


def test_ranks_beyond_a_sequence_each_share_sequences() -> None:
    # 32 ranks of tp 2, eight sequences
    found = strategy_of({**ROW, "gbs": "8"})
    assert (found.dp, found.cp, found.microbatches) == (8, 4, 1)


def test_devices_left_over_by_a_stated_dp_share_sequences() -> None:
    # 64 devices, tp 2, dp 4 stated and 4 sequences in the batch: 8 ranks for each sequence
    found = strategy_of({**ROW, "dp": "4", "gbs": "4"})
    assert (found.dp, found.cp, found.microbatches) == (4, 8, 1)


def test_degrees_that_are_not_the_devices_are_refused() -> None:
    with pytest.raises(NotPredictable, match="64 devices"):
        strategy_of({**ROW, "tp": "3"})
    with pytest.raises(NotPredictable, match="whole number of microbatches"):
        assert strategy_of({**ROW, "gbs": "520"}).microbatches


def test_a_sharding_group_is_part_of_the_data_parallel_ranks() -> None:
    assert strategy_of({**ROW, "fsdp_size": "8"}).zero_size == 8
    assert strategy_of({**ROW, "fsdp_size": "32"}).zero_size is None
