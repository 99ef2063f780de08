from __future__ import annotations

import csv
import re
from pathlib import Path

import numpy as np
import pytest

from bench.closed_form.profile import published_profile
from bench.closed_form.runs import FULL, NONE, PRODUCTS, SELECTIVE
from bench.closed_form.step import steps
from bench.published import GIVEN, TOO_LARGE, Measured, predictions, run
from bench.published_rows import rows_of
from bench.published_table import read
from bench.scores import score

ROOT = Path(__file__).parents[2]
ROW = {
    "row_id": "a", "source_id": "mine", "hw": "H100-SXM-80GB", "layers": "32", "hidden": "4096",
    "heads": "32", "seq_len": "4096", "gpus": "64", "gbs": "512", "tp": "2",
}  # fmt: skip


def test_the_committed_constants_predict_published_steps():
    measured = Measured.of(read(GIVEN))
    found = measured.scores(steps(measured.rows.runs, published_profile().constants).total)
    assert len(found) == 9
    assert sum(own.rows for own in found.values()) == 1934
    assert max(own.mape for own in found.values()) < 12
    assert np.mean([own.mape for own in found.values()]) < 6.5
    assert np.nanmean([own.tau for own in found.values()]) > 0.85
    assert np.nanmean([own.regret for own in found.values()]) < 2


def test_fitting_again_gives_the_committed_constants():
    fitted, _ = Measured.of(read(GIVEN)).fitted()
    committed = published_profile()
    for name, value in committed.values.items():
        assert fitted.values[name] == pytest.approx(value, rel=0.03), name


def test_docs_say_what_the_committed_constants_reach():
    text = (ROOT / "docs" / "cost-model.md").read_text(encoding="utf-8")
    measured = Measured.of(read(GIVEN))
    found = measured.scores(steps(measured.rows.runs, published_profile().constants).total)
    for name, own in found.items():
        said = re.search(rf"^\| {name} \| {own.rows:,} \| ([0-9.]+) ", text, re.MULTILINE)
        assert said, name
        assert float(said[1]) == pytest.approx(own.mape, abs=0.15), name


def test_configurations_published_as_too_large_are_refused():
    rows = rows_of(read(TOO_LARGE))
    refused = {row["row_id"] for row, own in zip(rows.rows, rows.fits, strict=True) if not own}
    assert refused >= {"oom-01", "oom-03", "oom-07", "oom-09", "oom-11"}


def test_configurations_that_ran_are_said_to_fit():
    rows = rows_of(read(GIVEN))
    assert rows.fits.all()
    assert (rows.memory_bytes <= 1.001 * rows.runs.memory_bytes).all()


def test_memory_that_was_measured_is_predicted():
    rows = rows_of(read(GIVEN))
    measured = np.array([float(row["mem_gib"] or "nan") for row in rows.rows])
    error = np.abs(rows.memory_bytes / 2**30 / measured - 1)
    assert np.isfinite(error).sum() == 41
    assert np.nanmean(error) < 0.12


def test_rows_that_say_too_little_get_a_reason_and_no_number():
    rows = [
        ROW,
        {**ROW, "row_id": "b", "hidden": ""},
        {**ROW, "row_id": "c", "hw": "Abacus"},
        {**ROW, "row_id": "d", "tp": "128"},
        {**ROW, "row_id": "e", "layers": "many"},
        {**ROW, "row_id": "f", "hw": "Abacus", "hw_peak_tflops": "700"},
    ]
    found = {own["row_id"]: own for own in predictions(rows, published_profile(), False)}
    assert list(found) == ["a", "b", "c", "d", "e", "f"]
    assert float(found["a"]["predicted_step_time_s"]) > 0
    assert found["a"]["fits"] in ("true", "false")
    assert "hidden" in found["b"]["notes"]
    assert "Abacus" in found["c"]["notes"]
    assert "64 devices" in found["d"]["notes"]
    assert "layers" in found["e"]["notes"]
    assert all("predicted_step_time_s" not in found[name] for name in "bcde")
    assert "constants of NVIDIA H100" in found["f"]["notes"]


def test_a_stated_memory_is_that_of_another_model_of_the_device():
    row = {**ROW, "hw": "V100-SXM2"}
    assert rows_of([row]).runs.memory_bytes[0] == pytest.approx(32 * 2**30, rel=0.01)
    assert rows_of([{**row, "hbm_gb": "16"}]).runs.memory_bytes[0] == 16 * 2**30
    assert rows_of([{**row, "hbm_gb": "34.4"}]).runs.memory_bytes[0] < 33 * 2**30


@pytest.mark.rotating
@pytest.mark.parametrize("hardware", ["V100-SXM2-32GB", "TPU v5e", "Ascend 910B3", "GB200 NVL72",
                                      "MI300X", "H20", "A800", "L40S", "trn2", "H200"])  # fmt: skip
@pytest.mark.parametrize("framework", ["", "Megatron-LM", "torchtitan", "MaxText", "unheard of"])
def test_devices_and_frameworks_nobody_measured_reach_a_plausible_share_of_peak(
    hardware: str, framework: str
):
    row = {**ROW, "hw": hardware, "framework": framework, "tp": "1", "ffn": "16384"}
    runs = rows_of([row]).runs
    flops = 6 * 32 * 12 * 4096**2 * 512 * 4096
    seconds = steps(runs, published_profile().constants).total
    assert 0.2 < flops / (seconds * 64 * runs.peak_flops_per_s) < 0.65


def test_words_stand_for_numbers_and_for_silence():
    row = {**ROW, "seq_par": "yes", "flash_attn": "no", "cp": "n/a", "gbs": "1,024", "vpp": "-"}
    runs = rows_of([row]).runs
    assert (runs.sequence_parallel[0], runs.flash[0], runs.cp[0], runs.batch[0]) == (1, 0, 1, 1024)
    kinds = {"full": FULL, "Full (uniform)": FULL, "yes": FULL, "selective": SELECTIVE,
             "selective-op": PRODUCTS, "none": NONE, "unstated": NONE, "": NONE}  # fmt: skip
    for said, kind in kinds.items():
        assert rows_of([{**ROW, "recompute": said}]).runs.recompute[0] == kind, said


def test_a_rank_computes_no_more_sequences_at_a_time_than_it_has():
    # 64 devices, tp 2, 512 sequences: 16 for each of 32 ranks
    assert rows_of([{**ROW, "mbs": "64"}]).runs.microbatch[0] == 16
    assert rows_of([{**ROW, "framework": "MaxText"}]).runs.microbatch[0] == 16
    assert rows_of([{**ROW, "framework": "MaxText", "pp": "2"}]).runs.microbatch[0] == 1
    assert rows_of([ROW]).runs.microbatch[0] == 1


def test_what_is_made_again_lets_a_microbatch_have_more_sequences():
    # 4,096 tokens of 4,096 numbers are 2^24: four sequences; as many as scripts of arXiv:2104.04473
    # have for 7.5 and 310 billion parameters, within a factor of two
    assert rows_of([{**ROW, "recompute": "full"}]).runs.microbatch[0] == 4
    assert rows_of([{**ROW, "recompute": "full", "mbs": "1"}]).runs.microbatch[0] == 1
    table = {16: ("2048", "4096"), 1: ("2048", "16384")}
    for sequences, (tokens, hidden) in table.items():
        row = {**ROW, "recompute": "full", "seq_len": tokens, "hidden": hidden}
        assert 0.5 <= rows_of([row]).runs.microbatch[0] / sequences <= 2


def test_frameworks_that_shard_parameters_do_so_where_a_row_is_silent():
    names = {"torchtitan": 3, "MaxText": 3, "Megatron-LM": 1, "": 1, "DeepSpeed": 1}
    for name, stage in names.items():
        assert rows_of([{**ROW, "framework": name}]).runs.zero[0] == stage
    assert rows_of([{**ROW, "framework": "MaxText", "zero_stage": "1"}]).runs.zero[0] == 1


def test_a_microbatch_that_nobody_states_is_one_that_fits():
    # 16 sequences a rank: 16 do not fit, 1 does
    row = {**ROW, "framework": "MaxText", "recompute": "none"}
    rows = rows_of([row, {**row, "mbs": "16"}])
    assert rows.fits.tolist() == [True, False]
    assert 1 <= rows.runs.microbatch[0] < 16


def test_what_is_not_said_of_recomputation_is_as_much_as_has_to_be():
    row = {**ROW, "framework": "NeMo", "mbs": "16", "seq_len": "8192"}
    said = [{**row, "recompute": words} for words in ("", "unknown", "none")]
    assert rows_of(said).fits.tolist() == [True, True, False]


def test_a_row_beyond_what_a_run_can_have_moves_no_anchor():
    timed = {**ROW, "step_time_s": "2"}
    wild = {**timed, **dict.fromkeys(("layers", "hidden", "seq_len", "gbs", "vocab"), "9e17")}
    (own, *_) = predictions([timed, *[wild] * 5], published_profile(), True)
    assert float(own["predicted_step_time_s"]) > 0


def test_ranks_beyond_a_sequence_each_share_sequences():
    # 32 ranks of tp 2, eight sequences
    runs = rows_of([{**ROW, "gbs": "8"}]).runs
    assert (runs.dp[0], runs.cp[0], runs.microbatches[0]) == (8, 4, 1)


def test_selective_checkpointing_of_pytorch_makes_products_again():
    row = {**ROW, "framework": "torchtitan", "recompute": "selective"}
    assert rows_of([row]).runs.recompute[0] == PRODUCTS


def test_a_fused_loss_holds_no_second_copy_of_logits():
    names = {"torchtitan": 10, "llm-foundry": 4, "Megatron-LM": 10}
    for name, bytes_each in names.items():
        assert rows_of([{**ROW, "framework": name}]).runs.logit_bytes[0] == bytes_each


def test_devices_left_over_by_a_stated_dp_share_sequences():
    # 64 devices, tp 2, dp 4 stated and 4 sequences in the batch: 8 ranks for each sequence
    runs = rows_of([{**ROW, "dp": "4", "gbs": "4"}]).runs
    assert (runs.dp[0], runs.cp[0], runs.microbatches[0]) == (4, 8, 1)


def test_an_anchor_makes_half_of_a_source_too_long():
    rows = [{**ROW, "row_id": str(gbs), "gbs": str(gbs)} for gbs in (512, 1024, 2048)]
    plain = predictions(rows, published_profile(), False)
    timed = [
        {**row, "step_time_s": str(2 * float(own["predicted_step_time_s"]))}
        for row, own in zip(rows, plain, strict=True)
    ]
    for row, own in zip(timed, predictions(timed, published_profile(), True), strict=True):
        assert float(own["predicted_step_time_s"]) == pytest.approx(
            float(row["step_time_s"]), rel=1e-4
        )


def test_scores_by_hand():
    # ratios 1.1, 0.9, 1.2; in the group the second is measured fastest, the third predicted so
    predicted, measured = np.array([11.0, 9.0, 6.0]), np.array([10.0, 4.0, 5.0])
    found = score(predicted, measured, ["g", "g", "g"])
    assert found.mape == pytest.approx(100 * (0.1 + 1.25 + 0.2) / 3)
    assert found.median == pytest.approx(20)
    assert found.tau == pytest.approx(1 / 3)
    assert found.regret == pytest.approx(25)
    alone = score(predicted, measured, ["", "", ""])
    assert np.isnan(alone.tau)


def test_the_command_writes_a_file(tmp_path: Path):
    from argparse import Namespace

    source, output = tmp_path / "steps.csv", tmp_path / "out.csv"
    with source.open("w", newline="") as file:
        writer = csv.DictWriter(file, [*ROW, "unheard_of"])
        writer.writeheader()
        writer.writerow({**ROW, "unheard_of": "x"})
    run(
        Namespace(
            steps=source, output=output, profile=None, anchor=False, score=False, ablation=False,
            fit=None,
        )
    )  # fmt: skip
    (record,) = read(output)
    assert record["used_profile"] == published_profile().id
