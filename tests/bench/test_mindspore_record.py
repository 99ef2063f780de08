"""From what a script that runs MindSpore prints to the data file."""

from __future__ import annotations

import json

from bench.mindspore_record import compact, document, text

GPT = {
    "model": "gpt", "layers": 2, "hidden": 64, "batch": 64, "seq": 64, "device_num": 8,
    "dataset": "full", "options": {"heads": 4, "vocab": 512},
}  # fmt: skip


def test_operators_of_a_cell_are_matched_as_they_are_listed() -> None:
    cell = "Default/net-Gpt/blocks-CellList/1-Block"
    strategies = {
        f"{cell}/LayerNorm-op1": [[8, 1], [1], [1]],
        f"{cell}/q-Linear/MatMul-op0": [[2, 1], [1, 4]],
        f"{cell}/LayerNorm-op0": [[4, 1], [1], [1]],
        "Default/_VirtualDataset-op0": [[1]],
    }
    rows = [
        json.dumps({**GPT, "strategies": strategies, "search_mode": mode})
        for mode in ("recursive_programming", "dynamic_programming", "dynamic_programming")
    ]
    (case,) = document(rows, {})["cases"]
    assert case["strategies"] == {
        "blocks.1.ln1": "(8,1) (1) (1)",
        "blocks.1.q.matmul": "(2,1) (1,4)",
        "blocks.1.ln2": "(4,1) (1) (1)",
    }
    assert case["found_by"] == ["recursive, whole batch", "dynamic, whole batch"]


def test_cuts_of_rows_are_spread_over_the_dims_they_are_made_of() -> None:
    by_op = {
        "model.layers.0.self_attn.q_proj": [["MatMul", [[128, 1], [2, 1]]]],
        "cross_entropy": [
            ["OneHot", [[16, 1], [], []]],
            ["SoftmaxCrossEntropyWithLogits", [[16, 1], [16, 1]]],
            ["ReduceMean", [[16]]],
        ],
    }
    row = {
        "graph": "llama3-8b.json.gz", "set": {"seq": 4096}, "devices": 256,
        "search": "recursive_programming", "by_op": by_op,
    }  # fmt: skip
    (case,) = document([json.dumps(row)], {})["cases"]
    assert case["model"] == "llama3-8b"
    assert case["strategies"] == {
        "model.layers.0.self_attn.q_proj": "(64,2,1) (2,1)",  # 64 sequences, each in halves
        "cross_entropy": "(16,1,1) (16,1)",
    }


def test_neighbours_that_are_cut_alike_are_written_once() -> None:
    same = {f"blocks.{k}.ln1": [[8, 1]] for k in (0, 1, 2, 4)}
    assert compact({**same, "blocks.3.ln1": [[4, 1]], "head": [[8]]}) == {
        "blocks.0-2.ln1": "(8,1)",
        "blocks.4.ln1": "(8,1)",
        "blocks.3.ln1": "(4,1)",
        "head": "(8)",
    }


def test_the_file_has_a_line_a_case() -> None:
    found = {"source": "here", "cases": [{"model": "mlp"}, {"model": "gpt"}]}
    assert json.loads(text(found)) == found
    assert '\n{"model": "gpt"}\n' in text(found)
