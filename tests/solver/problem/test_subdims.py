"""Sub-dims: cuts travel to where they are needed, and block no more than they must."""

from __future__ import annotations

import pytest

from meshwright.schema import parse_notation
from meshwright_solver.problem.problem import Problem
from tests.solver.small_graphs import GraphMaker, problem, topology


def built(maker: GraphMaker, *outputs: str) -> Problem:
    return problem(maker.graph(*outputs), topology(2))


def sub_dims(found: Problem, tensor: str) -> list[list[int]]:
    """The sizes of the sub-dims of every dim, major first."""
    info = found.tensors[tensor]
    return [[slot.size for slot in info.slots if slot.dim == d] for d in range(len(info.shape))]


def parts(found: Problem, op: str) -> dict[str, tuple[int, bool]]:
    """Part -> its size and whether it can be sharded."""
    return {part.name: (part.size, part.shardable) for part in found.op_by_name[op].parts}


def same_part(found: Problem, op: str, one: tuple[int, int], other: tuple[int, int]) -> bool:
    """Whether slot `one` = (input, slot) and slot `other` = (output, slot) are the same part."""
    info = found.op_by_name[op]
    a = {slot: part for part, slot in info.inputs[one[0]].slot_of.items()}
    b = {slot: part for part, slot in info.outputs[other[0]].slot_of.items()}
    return a[one[1]] == b[other[1]]


def test_keys_may_follow_every_part_of_a_cut_sequence():
    maker = GraphMaker()
    # windows of 2 x 3 positions, whose rows and columns are dims of the projections
    heads = []
    for name in "qkv":
        window = [2, 4, 2, 3, 8]
        x, w = maker.input(f"x{name}", *window), maker.parameter(f"w{name}", 8, 8)
        y = maker.op("linear", [x, w], window, name)
        heads.append(maker.op("reshape", [y], [2, 4, 6, 8], f"{name} window"))
    found = built(maker, maker.op("attention", heads, [2, 4, 6, 8], "attention"))
    rule = parse_notation(found.op_by_name["attention"].notation)
    assert rule.may_follow == {"t0": ("s0", "s1"), "t1": ("s0", "s1")}


def test_heads_cut_the_projection_and_its_weight_before_and_behind_attention():
    maker = GraphMaker()
    b, s, heads, d = 2, 6, 4, 8
    turned = []
    for name in "qkv":
        y = maker.op("linear", [maker.input(f"x{name}", b, s, 12),
                                maker.parameter(f"w{name}", heads * d, 12)],
                     [b, s, heads * d], name)  # fmt: skip
        split = maker.op("reshape", [y], [b, s, heads, d], f"{name} split")
        order = {"dims": [0, 2, 1, 3]}
        turned.append(maker.op("transpose", [split], [b, heads, s, d], f"{name} t", attrs=order))
    a = maker.op("attention", turned, [b, heads, s, d], "attention")
    back = maker.op("transpose", [a], [b, s, heads, d], "back", attrs={"dims": [0, 2, 1, 3]})
    flat = maker.op("reshape", [back], [b, s, heads * d], "flat")
    out = maker.op("linear", [flat, maker.parameter("wo", 12, heads * d)], [b, s, 12], "o")
    found = built(maker, out)
    # 32 = 4 heads x 8 wherever it stands: in activations, and in both weights
    assert sub_dims(found, "q:out")[2] == [4, 8]
    assert sub_dims(found, "wq") == [[4, 8], [12]]
    assert sub_dims(found, "wo") == [[12], [4, 8]]
    assert parts(found, "q")["n0"] == (4, True)
    assert parts(found, "o")["k0"] == (4, True)
    # heads pass attention; the width of a head cannot be split there
    assert parts(found, "attention")["g"] == (4, True)
    assert not any(parts(found, "attention")[name][1] for name in ("d", "e"))


def test_grouped_heads_cut_the_query_into_groups_and_members():
    # 8 query heads, 2 of keys and values: groups of 4
    maker = GraphMaker()
    b, s, d = 2, 6, 4
    y = maker.op("linear", [maker.input("x", b, s, 12), maker.parameter("w", 8 * d, 12)],
                 [b, s, 8 * d], "q")  # fmt: skip
    split = maker.op("reshape", [y], [b, s, 8, d], "split")
    q = maker.op("transpose", [split], [b, 8, s, d], "t", attrs={"dims": [0, 2, 1, 3]})
    k, v = maker.parameter("k", b, 2, s, d), maker.parameter("v", b, 2, s, d)
    found = built(maker, maker.op("attention", [q, k, v], [b, 8, s, d], "attention"))
    assert parts(found, "attention")["g"] == (2, True)
    assert parts(found, "attention")["r"] == (4, True)
    # 32 = 2 groups x 4 heads x 4
    assert sub_dims(found, "w")[0] == [2, 4, 4]
    assert parts(found, "q")["n0"] == (2, True)
    assert same_part(found, "q", (1, 0), (0, 2))


def test_a_fused_projection_of_equal_parts_is_split_inside_each_part():
    # 24 = 3 parts x (2 heads x 4): a device has a head of every part
    maker = GraphMaker()
    y = maker.op("linear", [maker.input("x", 6, 5), maker.parameter("w", 24, 5)], [6, 24], "qkv")
    q, _, _ = maker.split(y, [[6, 8]] * 3, 1, "split")
    found = built(maker, maker.op("reshape", [q], [6, 2, 4], "heads"))
    assert sub_dims(found, "w")[0] == [3, 2, 4]
    assert parts(found, "qkv") == {
        "b0": (6, True), "k": (5, True), "n0": (3, True), "n1": (2, True), "n2": (4, True),
    }  # fmt: skip
    assert parts(found, "split") == {
        "d0": (6, True), "p": (3, False), "y0": (2, True), "y1": (4, True),
    }  # fmt: skip
    # the parts' heads are the middle sub-dim of the fused dim and the first of each result
    assert same_part(found, "split", (0, 2), (0, 1))


def test_a_fused_projection_of_unequal_segments_is_split_over_what_all_have():
    # q 8 heads, k and v 2 each, of 4: 32 | 8 | 8; all are 2 groups of (4 heads | 1 | 1) of 4
    maker = GraphMaker()
    y = maker.op("linear", [maker.input("x", 6, 5), maker.parameter("w", 48, 5)], [6, 48], "qkv")
    q, k, _ = maker.split(y, [[6, 32], [6, 8], [6, 8]], 1, "split")
    maker.op("reshape", [q], [6, 8, 4], "q heads")
    maker.op("reshape", [k], [6, 2, 4], "k heads")
    found = built(maker, "q heads:out", "k heads:out")
    assert found.tensors["w"].segments == {0: (32, 8, 8)}
    assert found.tensors["qkv:out"].segments == {1: (32, 8, 8)}
    # one group of w is 24 rows: 16 of q, 4 of k, 4 of v
    assert sub_dims(found, "w")[0][0] == 2
    assert parts(found, "split")["g0"] == (2, True)
    assert not parts(found, "split")["p0"][1]
    assert sub_dims(found, "split:1")[1] == [2, 4]
    assert sub_dims(found, "split:0")[1][0] == 2


def test_only_the_factor_that_all_segments_share_can_be_sharded():
    maker = GraphMaker()
    a = maker.op("gelu", [maker.parameter("p", 4, 6)], [4, 6], "a")
    b = maker.op("gelu", [maker.parameter("q", 4, 4)], [4, 4], "b")
    joined = maker.op("join", [a, b], [4, 10], "join", rule="m p, m q -> m (p|q)")
    found = built(maker, joined)
    assert parts(found, "join") == {"m": (4, True), "p": (6, False), "q": (4, False)}


def test_incompatible_views_of_a_dim_block_the_factor_that_has_both_and_nothing_else():
    # 12 = 3 x 4 and 12 = 2 x 6 have no common refinement
    maker = GraphMaker()
    x = maker.op("gelu", [maker.parameter("p", 8, 12)], [8, 12], "x")
    maker.op("reshape", [x], [8, 3, 4], "three")
    maker.op("reshape", [x], [8, 2, 6], "two")
    found = built(maker, "three:out", "two:out")
    for op in ("x", "three", "two"):
        rows = next(iter(parts(found, op).values()))
        assert rows == (8, True)
    # the cut found first stays: x and `three` agree on 3 x 4
    assert sub_dims(found, "x:out")[1] == [3, 4]
    assert [size for size, ok in parts(found, "three").values() if ok] == [8, 3, 4]
    assert [ok for _, ok in parts(found, "two").values()] == [True, False, False]


@pytest.mark.parametrize(
    ("given", "made", "cut_given", "cut_made"),
    [
        ([6, 4], [24], [[6], [4]], [[6, 4]]),
        ([24], [2, 3, 4], [[2, 3, 4]], [[2], [3], [4]]),
        ([4, 6], [8, 3], [[4], [2, 3]], [[4, 2], [3]]),
        ([5, 1, 6], [5, 6], [[5], [], [6]], [[5], [6]]),
        ([2, 6, 5], [3, 4, 5], [[2], [6], [5]], [[3], [4], [5]]),  # 12 = 2 x 6 = 3 x 4: blocked
    ],
)
def test_a_reshape_cuts_both_sides_alike(given, made, cut_given, cut_made):
    maker = GraphMaker()
    x = maker.op("gelu", [maker.parameter("p", *given)], given, "x")
    found = built(maker, maker.op("reshape", [x], made, "view"))
    assert sub_dims(found, "x:out") == cut_given
    assert sub_dims(found, "view:out") == cut_made


def test_a_stretch_without_refinement_leaves_the_rest_of_the_reshape_shardable():
    maker = GraphMaker()
    x = maker.op("gelu", [maker.parameter("p", 2, 6, 5)], [2, 6, 5], "x")
    found = built(maker, maker.op("reshape", [x], [3, 4, 5], "view"))
    assert [size for size, ok in parts(found, "view").values() if ok] == [5]
    assert [size for size, ok in parts(found, "x").values() if ok] == [2, 6, 5]


def test_cuts_travel_through_a_long_chain_in_both_directions():
    maker = GraphMaker()
    x = maker.op("gelu", [maker.parameter("p", 24)], [24], "first")
    for k in range(20):
        x = maker.op("gelu", [x], [24], f"g{k}")
    maker.op("reshape", [x], [4, 6], "view")
    found = built(maker, "view:out")
    assert sub_dims(found, "p") == [[4, 6]]
    assert parts(found, "first") == {"d0_0": (4, True), "d0_1": (6, True)}


def test_a_segment_that_is_split_again_is_not_sharded_on_the_factor_of_the_outer_split():
    """Of 64 channels 16, 40 and 8 are split, and of the 40 again 24, 8 and 8: a shard of the 40 is
    contiguous for the outer split, and three pieces for the inner one."""
    maker = GraphMaker(batch=8)
    x = maker.input("x", "batch", 64)
    _, middle, _ = maker.split(x, [["batch", size] for size in (16, 40, 8)], 1, "outer")
    maker.split(middle, [["batch", size] for size in (24, 8, 8)], 1, "inner")
    made = problem(maker.graph("inner:0"), topology(2))
    shardable = {op.name: {part.factor for part in op.parts if part.shardable} for op in made.ops}
    assert "g" not in shardable["outer"]
    assert "g" in shardable["inner"]
