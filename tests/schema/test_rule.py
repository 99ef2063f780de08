"""Rule notation: what is read, what is refused, and where."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meshwright.schema import RuleError, ShardingRule, parse_notation


def test_a_linear_layer_with_bias():
    rule = parse_notation("b s k, n k, n -> b s n")
    assert rule.factors == ("b", "s", "k", "n")
    assert rule.summed == {"k"}
    assert [len(term) for term in rule.terms] == [3, 2, 1, 3]
    assert rule.outputs == (((("b",),), (("s",),), (("n",),)),)


def test_markers_hold_for_the_factor_wherever_it_stands():
    rule = parse_notation("n^ c x~!, c d! -> n c x")
    assert (rule.reused, rule.halo, rule.unsharded) == ({"n"}, {"x"}, {"x", "d"})


def test_products_segments_ones_and_scalars():
    rule = parse_notation("b (g r) 1, (q|k v|v), -> ")
    assert rule.inputs[0] == ((("b",),), (("g", "r"),), ((),))
    assert rule.inputs[1] == ((("q",), ("k", "v"), ("v",)),)
    assert rule.inputs[2] == rule.outputs[0] == ()


def test_a_factor_can_follow_another():
    rule = parse_notation("b s d, b t@s d -> b s d")
    assert rule.follows == {"t": "s"}
    assert parse_notation("_a t@_a -> _a").follows == {"t": "_a"}
    assert parse_notation("s t!@s -> s").unsharded == {"t"}


def test_a_factor_may_follow_another_by_choice():
    rule = parse_notation("b s d!, b t!@s? d! -> b s d!")
    assert (rule.follows, rule.may_follow) == ({}, {"t": ("s",)})
    assert "t" in rule.unsharded
    assert parse_notation("v@b?@c? h, b c -> b c h").may_follow == {"v": ("b", "c")}
    assert parse_notation("v@b?@b? h, b -> b h").may_follow == {"v": ("b",)}


def test_space_does_not_matter():
    assert parse_notation(" a ( b c ) ,d->a ") == parse_notation("a (b c), d -> a")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a b", "expected a factor, found 'the end' (character 3)"),
        ("", "expected a factor"),
        ("a -> b -> c", "found '->' (character 7)"),
        ("a => a", "cannot read ' => a' (character 1)"),
        ("a (b -> a", "a ( is not closed (character 5)"),
        ("a (b (c)) -> a", "a ( is not closed"),
        ("a) -> a", "expected a factor, found ')' (character 1)"),
        ("a a -> a", "factor a stands in two dims of one tensor"),
        ("(a a) -> a", "factor a stands twice in a product"),
        ("a | b -> a", "found '|'"),
        ("! a -> a", "found '!' (character 0)"),
        ("a@ -> a", "expected a factor after @"),
        ("a t@z -> a", "t follows z, which is not a factor"),
        ("a@a -> a", "a follows a, which follows itself"),
        ("a b@a c@b -> a", "c follows b, which follows itself"),
        ("a t@z? -> a", "t follows z, which is not a factor"),
        ("a b@a? c@b? -> a", "c follows b, which follows itself"),
        ("a b c@a@b? -> a", "c follows both always and by choice"),
        ("a b c@a@b -> a", "c follows two factors (character 10)"),
        ("a t@a? -> t", "an output has t without its leader"),
        ("a? -> a", "found '?' (character 1)"),
        ("é -> é", "cannot read 'é"),
        ("2 -> a", "cannot read '2"),
        ("a; import os -> a", "cannot read '; import"),
        ("a " * 10_001, "at most 20000 characters, got 20002"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_place(text, names):
    with pytest.raises(RuleError) as wrong:
        parse_notation(text)
    assert names in wrong.value.detail
    assert len(wrong.value.detail) < 300


# --- sizes ---------------------------------------------------------------------------------------


def sizes(notation: str, inputs: list, outputs: list, **given_sizes: int) -> dict[str, int]:
    return ShardingRule(notation=notation, sizes=given_sizes).bind(inputs, outputs)


def test_sizes_follow_from_shapes_products_and_segments():
    assert sizes("b (g r) d, b g d -> b (g r) d", [(2, 12, 4), (2, 3, 4)], [(2, 12, 4)]) == {
        "b": 2, "g": 3, "r": 4, "d": 4,
    }  # fmt: skip
    # 2 heads of q, k and v: 32 + 8 + 8 = g (4 + 1 + 1) with g = 8
    assert sizes("(g p|g|g) -> g p, g, g", [(48,)], [(8, 4), (8,), (8,)])["g"] == 8
    # the outputs decide first: 8 - 5 elements of the other segment
    assert sizes("(a|b) -> a", [(8,)], [(5,)]) == {"a": 5, "b": 3}
    assert sizes("n (g c^) -> n (g c^)", [(2, 12)], [(2, 12)], g=3)["c"] == 4


def test_a_halo_factor_may_differ_in_extent():
    assert sizes("n x~ -> n x~", [(2, 9)], [(2, 7)])["x"] == 7


@pytest.mark.parametrize(
    ("notation", "inputs", "outputs", "names"),
    [
        ("a b -> a", [(2,)], [(2,)], "input 0 has 2 dims in the rule and the shape [2]"),
        ("a, b -> a", [(2,)], [(2,)], "has 2 inputs, the op has 1"),
        ("a -> a, a", [(2,)], [(2,)], "has 2 outputs, the op has 1"),
        ("a, a -> a", [(2,), (3,)], [(2,)], "input 1 dim 0 has the size 3, but (a=2) is 2"),
        ("(a b) -> b", [(7,)], [(2,)], "leaves no whole number for a"),
        ("(a|b) -> b", [(4,)], [(4,)], "leaves no whole number for a"),
        ("(a b) c -> c", [(6, 2)], [(2,)], "the sizes of a, b do not follow"),
        ("1 a -> a", [(3, 2)], [(2,)], "has the size 3, but (1) is 1"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(notation, inputs, outputs, names):
    with pytest.raises(RuleError) as wrong:
        sizes(notation, inputs, outputs)
    assert names in wrong.value.detail
    assert notation in wrong.value.detail


def test_flops_are_the_iteration_space_twice_where_something_is_summed():
    assert ShardingRule(notation="b k, n k -> b n").flop_count({"b": 2, "k": 3, "n": 5}) == 60
    assert ShardingRule(notation="a b -> a b").flop_count({"a": 2, "b": 3}) == 6
    with_own = ShardingRule(notation="a b -> a b", flops="7*a", working_bytes="a*b*4")
    assert with_own.flop_count({"a": 2, "b": 3}) == 14
    assert with_own.working_byte_count({"a": 2, "b": 3}) == 24


def test_huge_factors_do_not_overflow():
    big = {"a": 2**53, "b": 2**53, "c": 2**53}
    assert ShardingRule(notation="a b, b c -> a c").flop_count(big) == 2.0**160


# --- every rule that can be written can be read --------------------------------------------------


@st.composite
def notations(draw: st.DrawFn) -> tuple[str, list[list[list[str]]]]:
    """A random rule and, for every dim of every term, its factors."""
    names = draw(st.lists(st.from_regex(r"[a-z_][a-z0-9]{0,3}", fullmatch=True), min_size=1,
                          max_size=6, unique=True))  # fmt: skip
    marks = {name: draw(st.sampled_from(["", "!", "^", "~"])) for name in names}

    def term() -> tuple[str, list[list[str]]]:
        left = draw(st.permutations(names))[: draw(st.integers(0, len(names)))]
        written, dims = [], []
        while left:
            take = draw(st.integers(1, min(3, len(left))))
            own, left = left[:take], left[take:]
            shown = [name + marks[name] for name in own]
            joint = draw(st.sampled_from([" ", "|"]))
            written.append(shown[0] if take == 1 else f"({joint.join(shown)})")
            dims.append(list(own))
        return " ".join(written), dims

    terms = [term() for _ in range(draw(st.integers(2, 4)))]
    text = ", ".join(t[0] for t in terms[:-1]) + " -> " + terms[-1][0]
    return text, [t[1] for t in terms]


@settings(max_examples=200, deadline=None)
@given(notations())
def test_every_rule_that_is_written_by_the_grammar_is_read_as_meant(case):
    text, dims = case
    parsed = parse_notation(text)
    found = [[[f for part in dim for f in part] for dim in term] for term in parsed.terms]
    assert found == dims


@settings(max_examples=300, deadline=None)
@given(st.text("ab1 ,()|@!^~->é", max_size=20))
def test_any_text_is_read_or_refused(text):
    try:
        parsed = parse_notation(text)
    except RuleError as wrong:
        assert wrong.detail  # noqa: PT017  # either is right
    else:
        assert parsed.outputs is not None
