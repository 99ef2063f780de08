"""Measurements of one GPU beside predictions: the tables of the page, made afresh."""

from __future__ import annotations

from pathlib import Path

from bench.gpu.cases import CASES
from bench.gpu.measurements import DATA, predictions_of, rows_of
from bench.gpu_accuracy import kernel_table, step_table, summary
from meshwright.common.files import read_document
from meshwright.schema.samples import Samples

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "explanation" / "cost-model.md").read_text(encoding="utf-8")


def test_the_tables_of_the_page_are_those_of_the_command() -> None:
    predictions = predictions_of("h100")
    lines = [*kernel_table("h100"), *step_table("h100", predictions)]
    assert [line for line in lines if line not in PAGE] == []
    assert [line for line in summary("h100", predictions) if line not in PAGE] == []


def test_every_measured_step_is_a_case_with_a_prediction() -> None:
    names = [row["case"] for name in ("steps", "runtime", "equal") for row in rows_of("h100", name)]
    assert len(names) == len(set(names)) == 28
    assert set(names) <= {case.name for case in CASES} & predictions_of("h100").keys()


def test_samples_of_the_gpu_are_a_valid_document() -> None:
    samples = read_document(DATA / "h100" / "samples.json", Samples)
    assert (samples.backend, len(samples.kernels), samples.complete) == ("nccl", 57, True)


def test_a_ratio_by_hand() -> None:
    """Llama of one billion, two sequences: 189.99 ms predicted, 212.4 measured; 48.91 GB and
    47.08 at the peak."""
    (row,) = [r for r in rows_of("h100", "steps") if r["case"] == "llama-1b-1x2-autocast-eager"]
    predicted = predictions_of("h100")[row["case"]]
    assert round(predicted["step_ns"] / row["step_ns"], 2) == 0.89
    assert round(predicted["peak_bytes"] / row["peak_bytes"], 2) == 1.04
