"""Tables of runs: files as people write them, and cells."""

from __future__ import annotations

import gzip
import random
from pathlib import Path

import pytest

from meshwright.runs import NotPredictable, read, request_of
from meshwright.runs.table import amount, flag, needed, number
from meshwright.schema import InvalidInput, MeshwrightError

ROW = {
    "row_id": "a", "source_id": "mine", "model": "some-7b", "hw": "H100-SXM-80GB", "layers": "32",
    "hidden": "4096", "heads": "32", "seq_len": "4096", "gpus": "64", "gbs": "512", "tp": "2",
}  # fmt: skip
HEADER = ",".join(ROW)
LINE = ",".join(ROW.values())


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
def test_a_table_may_be_written_in_many_ways(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "steps.csv"
    path.write_bytes(content)
    (row,) = read(path)
    assert request_of(row) == request_of(ROW)


@pytest.mark.parametrize("content", [b"", b"\n", HEADER.encode(), f"{HEADER}\n\n\n".encode()])
def test_a_table_may_have_no_rows(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "steps.csv"
    path.write_bytes(content)
    assert read(path) == []


def test_what_is_no_table_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "steps.csv.gz"
    path.write_bytes(gzip.compress(f"{HEADER}\n{LINE}\n".encode())[:-12])
    with pytest.raises(InvalidInput, match="no table"):
        read(path)
    with pytest.raises(InvalidInput, match="cannot be read"):
        read(tmp_path)


def test_cells_are_amounts_words_or_silence() -> None:
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


@pytest.mark.parametrize("count", [500, pytest.param(3000, marks=pytest.mark.long)])
def test_whatever_a_table_says_a_row_has_a_request_or_a_reason(count: int) -> None:
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
    requests, reasons = 0, list[str]()
    for _ in range(count):
        changes = {draw.choice(columns): draw.choice(said) for _ in range(draw.randint(1, 6))}
        try:
            request_of({**ROW, **changes})
            requests += 1
        except (NotPredictable, MeshwrightError) as error:
            reasons.append(str(error))
    assert all(reasons)
    assert requests > count / 8
