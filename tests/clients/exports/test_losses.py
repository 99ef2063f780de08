"""Losses: lines that state the same of several names are one, and none is left out."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from meshwright.exports.losses import Loss, losses_of

PROJECTIONS = [f"{name}_proj" for name in "qkvo"]


def test_the_projections_of_all_layers_are_one_loss() -> None:
    lines = [
        f"model.layers.*.self_attn.{name} (80 of them): gpu cuts the sequence of it"
        for name in PROJECTIONS
    ]
    (loss,) = losses_of(lines)
    assert loss.names == ("model.layers.*.self_attn.{q_proj, k_proj, v_proj, o_proj}",)
    assert (loss.count, loss.what) == (320, "gpu cuts the sequence of it")


def test_reasons_that_quote_names_are_folded_over_layers() -> None:
    lines = [
        f"op 'layers.{layer}.act': its primitive 'layers.{layer}.act' runs several times"
        for layer in range(32)
    ]
    what = "its primitive 'layers.*.act' runs several times"
    assert losses_of(lines) == (Loss(what=what, names=("layers.*.act",), count=32),)


def test_what_is_said_of_the_whole_plan_has_no_names() -> None:
    lines = ["axis node: it is neither data- nor tensor-parallel", "it has no schedule zb_v"]
    assert losses_of(lines) == tuple(Loss(what=line) for line in lines)


def test_the_roles_of_one_tensor_count_once_each() -> None:
    lines = [f"tensor 'norm' ({role}): not in a tensor map" for role in ("value", "read gradient")]
    assert losses_of(lines) == (Loss(what="not in a tensor map", names=("norm",), count=2),)


names = st.lists(st.sampled_from(["layers", "mlp", "0", "17", "q", "norm"]), min_size=1, max_size=4)


@given(st.lists(st.tuples(names, st.sampled_from(["it is replicated", "gpu cuts it"]))))
def test_every_line_is_counted_in_one_loss(parts: list[tuple[list[str], str]]) -> None:
    lines = [f"tensor '{'.'.join(name)}': {what}" for name, what in parts]
    losses = losses_of(lines)
    assert sum(loss.count for loss in losses) == len(set(lines))
    assert len({loss.what for loss in losses}) == len(losses)
    assert {loss.what for loss in losses} == {what for _, what in parts}
