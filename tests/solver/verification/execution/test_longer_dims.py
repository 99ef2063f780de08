"""Scaled down, what a top-k or a cut reads is still longer than what is left of it."""

import pytest

from meshwright.plugins.planner import certificate_of, find_planner, find_verifier, preset
from meshwright.schema import Graph
from tests.one_stage import one_stage_request


def graph(kind, width, left, attrs):
    """x [batch, 64] times w, of whose columns `left` are kept and summed."""

    def tensor(name, *shape, role="activation", dtype="float32"):
        return {"name": name, "shape": shape, "dtype": dtype, "role": role}

    outputs = ["y", "places"] if kind == "topk" else ["y"]
    tensors = [
        tensor("x", "batch", 64, role="input"),
        tensor("w", 64, width, role="parameter"),
        tensor("all", "batch", width),
        tensor("y", "batch", left),
        tensor("loss"),
        *([tensor("places", "batch", left, dtype="int64")] if kind == "topk" else []),
    ]
    ops = [
        {"name": "all", "kind": "linear", "inputs": ["x", "w"], "outputs": ["all"],
         "attrs": {"weight_layout": "kn"}},
        {"name": "part", "kind": kind, "inputs": ["all"], "outputs": outputs, "attrs": attrs},
        {"name": "loss", "kind": "mean", "inputs": ["y"], "outputs": ["loss"],
         "attrs": {"dims": [0, 1], "keepdim": False}},
    ]  # fmt: skip
    return Graph.from_dict(
        {"symbols": {"batch": 64}, "tensors": tensors, "ops": ops, "outputs": ["loss"],
         "loss": "loss"}
    )  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "width", "left", "attrs"),
    [
        # eight of the experts, of which two would be left
        ("topk", 128, 8, {"k": 8, "dim": 1}),
        # 73 and 71 columns would become equally many
        ("slice", 73, 71, {"dim": 1, "start": 0, "end": 71, "step": 1}),
    ],
)
def test_a_plan_with_a_longer_dim_is_verified(kind, width, left, attrs):
    request = one_stage_request(graph=graph(kind, width, left, attrs), topology=preset("h100-1x8"))
    answer = find_planner()(request)
    assert answer.plan is not None
    certificate = certificate_of(find_verifier(), answer.plan, request)
    assert certificate.outcome == "verified", certificate.detail


def test_a_cut_in_steps_that_does_not_scale_is_named():
    attrs = {"dim": 1, "start": 1, "end": 256, "step": 2}
    request = one_stage_request(graph=graph("slice", 256, 128, attrs), topology=preset("h100-1x8"))
    answer = find_planner()(request)
    assert answer.plan is not None
    certificate = certificate_of(find_verifier(), answer.plan, request)
    assert certificate.outcome == "not verifiable"
    assert "op 'part' has the rule d0 u1! -> d0 w1! over 64×256, 64×128" in certificate.detail
