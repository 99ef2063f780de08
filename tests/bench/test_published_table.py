from __future__ import annotations

import csv
import gzip
import math
import random
from argparse import Namespace
from pathlib import Path

import pytest

from bench.closed_form.profile import published_profile
from bench.closed_form.runs import STACKS
from bench.published import predictions, run
from bench.published_rows import rows_of
from bench.published_table import NotPredictable, amount, flag, needed, number, read

ROW = {
    "row_id": "a", "source_id": "mine", "model": "some-7b", "hw": "H100-SXM-80GB", "layers": "32",
    "hidden": "4096", "heads": "32", "seq_len": "4096", "gpus": "64", "gbs": "512", "tp": "2",
}  # fmt: skip
HEADER = ",".join(ROW)
LINE = ",".join(ROW.values())


def predicted(path: Path) -> list[dict[str, str]]:
    output = path.with_suffix(".out")
    given = {"profile": None, "anchor": True, "score": False, "ablation": False, "fit": None}
    run(Namespace(steps=path, output=output, **given))
    with output.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize(
    "content",
    [
        f"{HEADER}\n{LINE}\n".encode(),
        f"{HEADER}\n{LINE}".encode("utf-8-sig"),
        f"{HEADER}\r\n{LINE}\r\n".encode(),
        f"{HEADER}\r{LINE}\r".encode(),
        f"{HEADER}\n{LINE}\n".encode("utf-16"),
        gzip.compress(f"{HEADER}\n{LINE}\n".encode()),
        f"{HEADER}\n{LINE}\n".replace(",", ";").encode(),
        f"{HEADER}\n{LINE}\n".replace(",", "\t").encode(),
        f"{HEADER.upper()}\n{LINE}\n".encode(),
        f"{HEADER.replace(',', ' , ')}\n{LINE.replace(',', ' , ')}\n".encode(),
        f"{HEADER},notes\n{LINE},caf\xe9\n".encode("latin-1"),
        f'{HEADER},notes\n{LINE},"two\nlines, quoted"\n'.encode(),
        f"{HEADER}\n{LINE},more,than,columns\n".encode(),
        f"{HEADER},lacking\n{LINE}\n".encode(),
        f"{HEADER},long\n{LINE},{'x' * 200_000}\n".encode(),
        f"{HEADER},null\n{LINE},\0\n".encode(),
    ],
)
def test_a_table_may_be_written_in_many_ways(content: bytes, tmp_path: Path):
    path = tmp_path / "steps.csv"
    path.write_bytes(content)
    (own,) = predicted(path)
    (plain,) = predictions([ROW], published_profile(), anchored=False)
    assert own["row_id"].strip() == "a"
    assert own["predicted_step_time_s"] == plain["predicted_step_time_s"]


@pytest.mark.parametrize("content", [b"", b"\n", HEADER.encode(), f"{HEADER}\n\n\n".encode()])
def test_no_rows_have_no_predictions(content: bytes, tmp_path: Path):
    path = tmp_path / "steps.csv"
    path.write_bytes(content)
    assert predicted(path) == []


def test_what_is_no_table_is_refused(tmp_path: Path):
    path = tmp_path / "steps.csv.gz"
    path.write_bytes(gzip.compress(f"{HEADER}\n{LINE}\n".encode())[:-12])
    with pytest.raises(ValueError, match="no table"):
        read(path)


def test_rows_of_one_name_keep_their_own_answers():
    rows = [ROW, {**ROW, "tp": "128"}, {**ROW, "hidden": "?"}, ROW]
    found = predictions(rows, published_profile(), anchored=False)
    assert [own["row_id"] for own in found] == ["a"] * 4
    assert found[0] == found[3]
    assert "128" in found[1]["notes"]
    assert "hidden" in found[2]["notes"]


def test_cells_are_amounts_words_or_silence():
    row = {"a": " 1e3 ", "b": "80 GB", "c": "400Gb/s", "d": "~312 TFLOPS dense", "e": "8 (NVL72)",
           "f": "1,024", "g": "TRUE", "h": "N/A", "i": "-2", "j": "8k", "k": "1-4", "l": "inf",
           "m": "0", "n": "Flash-2", "o": "unfused"}  # fmt: skip
    found = [number(row, name, -1.0) for name in "abcdefgh"]
    assert found == [1000, 80, 400, 312, 8, 1024, 1, -1]
    for name in "jkl":
        with pytest.raises(NotPredictable, match=f"{name} is"):
            number(row, name, 1.0)
    with pytest.raises(NotPredictable, match="above 0"):
        amount(row, "i", 1.0)
    assert amount(row, "m", 7.0) == 7
    assert flag(row, "n", 0.0, r"^(?!un).*(flash|fused)") == 1
    assert flag(row, "o", 1.0, r"^(?!un).*(flash|fused)") == 0
    with pytest.raises(NotPredictable, match="'0'"):
        needed(row, "m")


@pytest.mark.parametrize(
    ("precision", "number_bytes", "eight_bit"),
    [
        ("bf16", 2, 0), ("BF16", 2, 0), ("bfloat16", 2, 0), ("fp16", 2, 0), ("float16", 2, 0),
        ("half", 2, 0), ("bf16/amp", 2, 0), ("16-mixed", 2, 0), ("bf16 (fp32 grad accum)", 2, 0),
        ("fp8", 2, 1), ("FP8-hybrid", 2, 1), ("mxfp8", 2, 1), ("fp8_e4m3", 2, 1), ("NVFP4", 2, 1),
        ("int8", 2, 1), ("tf32", 4, 0), ("TF32", 4, 0), ("fp32", 4, 0), ("float32", 4, 0),
        ("32", 4, 0), ("", 2, 0),
    ],
)  # fmt: skip
def test_precisions_have_many_names(precision: str, number_bytes: int, eight_bit: int):
    runs = rows_of([{**ROW, "precision": precision}]).runs
    assert (runs.number_bytes[0], runs.eight_bit[0]) == (number_bytes, eight_bit)


def test_four_bits_leave_some_products_wide():
    # 0.85 of the products at 9,000 and 0.15 at 2,250 TFLOP/s
    row = {**ROW, "hw": "B200", "precision": "nvfp4"}
    for stated in ("", "9000"):
        peak = rows_of([{**row, "hw_peak_tflops": stated}]).runs.peak_flops_per_s[0]
        assert peak == pytest.approx(1e12 / (0.85 / 9000 + 0.15 / 2250))


@pytest.mark.parametrize(
    ("framework", "stack"),
    [
        ("DeepSpeed", "zero"), ("Colossal-AI", "zero"), ("MaxText", "compiled"),
        ("MindFormers 1.3", "compiled"), ("MindSpeed-LLM", "megatron"), ("torchtitan", "fsdp"),
        ("Pai-Megatron-Patch", "megatron"), ("Axolotl", "fsdp"), ("PaddleNLP", "paddle"),
        ("OneFlow LiBai", "other"), ("PyTorch/XLA", "compiled"), ("PyTorch FSDP2", "fsdp"),
        ("NeMo AutoModel", "fsdp"), ("Megatron-Bridge 26.06", "nemo"), ("MegaScale", "megatron"),
        ("LLaMA-Factory", "fsdp"), ("", "megatron"),
    ],
)  # fmt: skip
def test_frameworks_have_their_stacks(framework: str, stack: str):
    assert STACKS[int(rows_of([{**ROW, "framework": framework}]).runs.stack[0])] == stack


@pytest.mark.parametrize(
    ("said", "stage"), [("3", 3), ("ZeRO-2", 2), ("stage1", 1), ("FSDP", 3), ("DDP", 0), ("?", 1)]
)
def test_stages_of_zero_have_names(said: str, stage: int):
    assert rows_of([{**ROW, "zero_stage": said}]).runs.zero[0] == stage


@pytest.mark.parametrize("count", [500, pytest.param(3000, marks=pytest.mark.long)])
def test_whatever_a_table_says_a_row_has_a_sane_number_or_a_reason(count: int):
    said = ["", "nan", "inf", "-inf", "0", "-1", "1e3", "1e400", "1e308", "1e-300", "abc", "True",
            "1", "3.5", "80GB", "٣", "a\nb", '"', "ZeRO-3", "0x10", "é", "1.2.3 GB/s",
            "NVLink 0GB/s",
            "9" * 400, "1e17", "1e-17"]  # fmt: skip
    columns = [*ROW, "kv_heads", "head_dim", "ffn", "glu", "vocab", "moe_experts", "moe_topk",
               "moe_ffn", "moe_shared_ffn", "moe_dense_layers", "params_b", "hw_peak_tflops",
               "hbm_gb", "gpus_per_node", "intra_link", "inter_gbps_per_gpu", "precision", "dp",
               "pp", "vpp", "cp", "ep", "seq_par", "zero_stage", "fsdp_size", "recompute", "mbs",
               "framework", "flash_attn", "step_time_s"]  # fmt: skip
    draw = random.Random(0)
    rows = [
        {**ROW, **{draw.choice(columns): draw.choice(said) for _ in range(draw.randint(1, 6))}}
        for _ in range(count)
    ]
    found = predictions(rows, published_profile(), anchored=True)
    assert len(found) == len(rows)
    numbers = [own for own in found if "predicted_step_time_s" in own]
    assert len(numbers) > count / 6
    for own in found:
        if own in numbers:
            assert 0 < float(own["predicted_step_time_s"]) < math.inf
            assert 0 < float(own["predicted_mem_gib"]) < math.inf
            assert own["fits"] in ("true", "false")
        else:
            assert own["notes"]
