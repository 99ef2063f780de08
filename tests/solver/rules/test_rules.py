"""The table of rules: what each family says, and that nothing but RuleError comes of bad ops."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meshwright.schema import Op, RuleError
from meshwright_solver.rules import KINDS, RuleTable
from meshwright_solver.rules.op_knowledge import Known

Shapes = list[tuple[int, ...]]


def bound(kind: str, inputs: Shapes, outputs: Shapes, **fields: Any):
    names = [f"i{k}" for k in range(len(inputs))], [f"o{k}" for k in range(len(outputs))]
    shapes = dict(zip([*names[0], *names[1]], [*inputs, *outputs], strict=True))
    op = Op(name="it", kind=kind, inputs=tuple(names[0]), outputs=tuple(names[1]), **fields)
    return RuleTable(shapes).rule_of(op)


def rule(kind: str, inputs: Shapes, outputs: Shapes, **attrs: Any) -> Known:
    found = bound(kind, inputs, outputs, attrs=attrs)
    assert found is not None
    return found.known


@pytest.mark.parametrize(
    ("kind", "inputs", "outputs", "attrs", "notation"),
    [
        ("linear", [(4, 6, 8), (3, 8)], [(4, 6, 3)], {}, "b0 b1 k, n k -> b0 b1 n"),
        ("linear", [(4, 8), (8, 3)], [(4, 3)], {"weight_layout": "kn"}, "b0 k, k n -> b0 n"),
        ("linear", [(4, 8), (3, 8), (3,)], [(4, 3)], {}, "b0 k, n k, n -> b0 n"),
        ("matmul", [(2, 4, 8), (2, 8, 3)], [(2, 4, 3)], {}, "b0 m k, b0 k n -> b0 m n"),
        ("matmul", [(2, 4, 8), (1, 8, 3)], [(2, 4, 3)], {}, "b0 m k, 1 k n -> b0 m n"),
        ("matmul", [(2, 4, 8), (8, 3)], [(2, 4, 3)], {}, "b0 m k, k n -> b0 m n"),
        ("add", [(4, 6), (6,)], [(4, 6)], {}, "d0 d1, d1 -> d0 d1"),
        ("add", [(4, 6), (4, 1)], [(4, 6)], {}, "d0 d1, d0 1 -> d0 d1"),
        ("layer_norm", [(4, 6), (6,), (6,)], [(4, 6)], {}, "b0 h0^, h0^, h0^ -> b0 h0^"),
        ("batch_norm", [(2, 3, 5, 5), (3,)], [(2, 3, 5, 5)], {}, "n^ c x0^ x1^, c -> n^ c x0^ x1^"),
        ("group_norm", [(2, 6, 5)], [(2, 6, 5)], {"groups": 3}, "n (g c^) x0^ -> n (g c^) x0^"),
        ("softmax", [(4, 6)], [(4, 6)], {"dim": 0}, "d0^ d1 -> d0^ d1"),
        ("cross_entropy", [(4, 6), (4,)], [()], {}, "b0 v^, b0 -> "),
        ("cross_entropy", [(4, 6), (4,)], [(4,)], {"reduction": "none"}, "b0 v^, b0 -> b0"),
        ("sum", [(4, 6)], [(4,)], {"dims": [1]}, "d0 d1 -> d0"),
        ("sum", [(4, 6)], [(4, 1)], {"dims": [-1]}, "d0 d1 -> d0 1"),
        ("mean", [(4, 6)], [()], {}, "d0 d1 -> "),
        ("amax", [(4, 6)], [(4,)], {"dims": [1]}, "d0 d1^ -> d0"),
        ("embedding", [(9, 4), (2, 3)], [(2, 3, 4)], {}, "v@b0?@b1? h, b0 b1 -> b0 b1 h"),
        ("transpose", [(2, 3, 4)], [(4, 2, 3)], {"dims": [2, 0, 1]}, "d0 d1 d2 -> d2 d0 d1"),
        ("expand", [(1, 4)], [(3, 4)], {}, "1 d1 -> d0 d1"),
        ("split", [(4, 6)], [(4, 2)] * 3, {"dim": 1}, "d0 (p! y) -> d0 y, d0 y, d0 y"),
        ("split", [(4, 6)], [(4, 4), (4, 2)], {"dim": -1}, "d0 (g p0!|g) -> d0 (g p0!), d0 g"),
        ("split", [(5,)], [(2,), (3,)], {"dim": 0}, "(p0!|p1!) -> p0!, p1!"),
        ("split", [(10,)], [(4,), (6,)], {"dim": 0}, "(g p0!|g p1!) -> (g p0!), (g p1!)"),
        ("concat", [(4, 2)] * 3, [(4, 6)], {"dim": 1}, "d0 y, d0 y, d0 y -> d0 (p! y)"),
        ("slice", [(4, 6)], [(4, 3)], {"dim": 1, "start": 3}, "d0 (c1! d1) -> d0 d1"),
        ("slice", [(4, 6)], [(4, 3)], {"dim": 1, "start": 1}, "d0 u1! -> d0 w1!"),
        ("pad", [(4, 6)], [(4, 8)], {}, "d0 u1! -> d0 w1!"),
        ("stack", [(4,), (4,)], [(2, 4)], {"dim": 0}, "d0, d0 -> p! d0"),
        ("sort", [(4, 6)], [(4, 6), (4, 6)], {"dim": 1}, "d0 d1! -> d0 d1, d0 d1"),
        ("topk", [(4, 6)], [(4, 2), (4, 2)], {"dim": 1}, "d0 d1^ -> d0 k1!, d0 k1!"),
    ],
)  # fmt: skip
def test_the_rule_of_a_kind(kind, inputs, outputs, attrs, notation):
    assert rule(kind, inputs, outputs, **attrs).rule.notation == notation


def test_parts_with_a_common_factor_that_no_part_equals_bind():
    # Mamba 2: the gate, the convolved channels and the steps have 16 in common
    found = bound("split", [(8, 10576)], [(8, 5120), (8, 5376), (8, 80)], attrs={"dim": 1})
    assert found is not None
    assert dict(found.sizes) == {"d0": 8, "g": 16, "p0": 320, "p1": 336, "p2": 5}


def test_the_flops_of_products_are_counted_by_hand():
    def flops(kind: str, inputs: Shapes, outputs: Shapes, **attrs: Any) -> float:
        found = bound(kind, inputs, outputs, attrs=attrs)
        assert found is not None
        return found.known.rule.flop_count({str(f): size for f, size in found.sizes.items()})

    assert flops("linear", [(4, 8), (3, 8)], [(4, 3)]) == 2 * 4 * 8 * 3
    # scores and values: 2 * b h s t (d + e); a causal mask leaves half
    q, kv = (2, 4, 6, 8), (2, 4, 5, 8)
    assert flops("attention", [q, kv, kv], [q]) == 2 * 2 * 4 * 6 * 5 * 16
    assert flops("attention", [q, kv, kv], [q], causal=True) == 2 * 4 * 6 * 5 * 16
    grouped = (2, 2, 5, 8)
    assert flops("attention", [q, grouped, grouped], [q]) == 2 * 2 * 4 * 6 * 5 * 16
    # every output point: 2 * c * kernel
    assert flops("conv", [(2, 3, 9, 9), (5, 3, 3, 3)], [(2, 5, 7, 7)]) == 2 * 2 * 5 * 49 * 3 * 9
    depthwise = flops("conv", [(2, 6, 9), (6, 1, 3)], [(2, 6, 7)], groups=6)
    assert depthwise == 2 * 2 * 6 * 7 * 3
    in_groups = flops("conv", [(2, 6, 9), (4, 3, 3)], [(2, 4, 7)], groups=2)
    assert in_groups == 2 * 2 * 4 * 7 * 3 * 3
    # every input point meets the kernel once, odd extents too
    assert flops("conv_transpose", [(1, 1, 3, 3), (1, 1, 3, 3)], [(1, 1, 7, 7)]) == 2 * 9 * 9
    assert flops("embedding", [(9, 4), (2,)], [(2, 4)]) == 0


@pytest.mark.parametrize(
    ("kind", "inputs", "outputs", "attrs"),
    [
        ("reshape", [(2,)], [(3,)], {}),
        ("reshape", [(6,)], [(2, 2)], {}),
        ("reshape", [], [(2,)], {}),
        ("linear", [(2, 3)], [(2, 3)], {}),
        ("linear", [(2, 3), (4, 5)], [(2, 4)], {}),
        ("add", [(3, 2), (2,)], [(2,)], {}),
        ("transpose", [(2, 3)], [(3, 2)], {"dims": [1, 1]}),
        ("transpose", [(2, 3)], [(3, 2)], {}),
        ("transpose", [(2, 3)], [(2, 3)], {"dims": [1, 0]}),
        ("softmax", [()], [()], {}),
        ("split", [(4,)], [(2,), (3,)], {"dim": 0}),
        ("layer_norm", [(2, 3)], [(2, 3)], {"dims": -5}),
        ("group_norm", [(2, 6, 3)], [(2, 6, 3)], {"groups": 0}),
        ("group_norm", [(2, 6, 3)], [(2, 6, 3)], {"groups": 4}),
        ("conv", [(2, 6, 3)], [(2, 6, 3)], {}),
        ("max_pool", [(2, 6, 4)], [(2, 6, 2)], {"kernel": "a"}),
        ("cumsum", [(2, 6)], [(2, 6)], {"dim": 1e400}),
        ("attention", [(2, 3, 4, 5)], [(2, 3, 4, 5)], {}),
    ],
)
def test_an_op_that_its_kind_cannot_be_is_refused_with_its_name(kind, inputs, outputs, attrs):
    with pytest.raises(RuleError, match="op 'it'"):
        RuleTable({f"i{k}": s for k, s in enumerate(inputs)} | {
            f"o{k}": s for k, s in enumerate(outputs)
        }).rule_of(Op.model_construct(
            name="it", kind=kind, inputs=tuple(f"i{k}" for k in range(len(inputs))),
            outputs=tuple(f"o{k}" for k in range(len(outputs))), attrs=attrs, rule=None,
        ))  # fmt: skip


shapes = st.lists(st.integers(1, 6), max_size=4).map(tuple)
attributes = st.dictionaries(
    st.sampled_from(["dim", "dims", "groups", "kernel", "stride", "start", "step", "causal",
                     "reduction", "weight_layout"]),
    st.integers(-3, 6) | st.lists(st.integers(-3, 6), max_size=3) | st.none() | st.text(max_size=3),
    max_size=3,
)  # fmt: skip


@settings(max_examples=600, deadline=None)
@given(
    st.sampled_from(sorted(KINDS)),
    st.lists(shapes, max_size=4),
    st.lists(shapes, min_size=1, max_size=3),
    attributes,
)
def test_any_op_of_a_known_kind_has_a_rule_or_is_refused_by_name(kind, inputs, outputs, attrs):
    try:
        found = bound(kind, inputs, outputs, attrs=attrs)
    except RuleError as wrong:
        assert "op 'it'" in wrong.detail  # noqa: PT017  # either is right
    else:
        if found is None:
            assert not inputs
            assert len(outputs) > 1
        else:
            assert all(size >= 1 for size in found.sizes.values())


def test_an_unknown_kind_has_no_rule_and_an_own_rule_comes_first():
    assert bound("zzz", [(2,)], [(2,)]) is None
    own = bound("zzz", [(2, 3), (3,)], [(2,)], rule="a b, b -> a")
    assert own is not None
    assert (own.known.op_class, dict(own.sizes)) == ("matmul", {"a": 2, "b": 3})
    over = bound("gelu", [(2, 3)], [(2, 3)], rule="a! b -> a! b")
    assert over is not None
    assert over.known.rule.parsed.unsharded == {"a"}


def test_ops_of_equal_content_share_one_rule():
    table = RuleTable({"a": (4, 6), "b": (4, 6), "c": (4, 6), "d": (6, 4)})
    first = table.rule_of(Op(name="1", kind="gelu", inputs=("a",), outputs=("b",)))
    assert table.rule_of(Op(name="2", kind="gelu", inputs=("b",), outputs=("c",))) is first
    assert table.rule_of(Op(name="3", kind="gelu", inputs=("d",), outputs=("d",))) is not first
