"""The factors of a rule in words."""

from __future__ import annotations

import pytest

from meshwright.launch_options.factor_words import SUMMED, factor_words
from meshwright.schema import Graph, Op, Tensor

BATCH, SEQUENCE, DIM_2 = "the batch", "the sequence", "dim 2 of the result"


def words(kind: str, rule: str | None, shapes: tuple[tuple[int | str, ...], ...]) -> dict[str, str]:
    """The words of an op whose last shape is that of its result."""
    names = [f"t{k}" for k in range(len(shapes))]
    *inputs, output = names
    op = Op(name="op", kind=kind, inputs=tuple(inputs), outputs=(output,))
    graph = Graph(
        name="one",
        symbols={"batch": 8, "seq": 16},
        tensors=tuple(
            Tensor(
                name=name,
                shape=shape,
                dtype="float32",
                role="activation" if name == output else "input",
            )
            for name, shape in zip(names, shapes, strict=True)
        ),
        ops=(op,),
        outputs=(output,),
    )
    return factor_words(op, rule, graph)


@pytest.mark.parametrize(
    ("kind", "rule", "shapes", "wanted"),
    [
        (
            "linear",
            "b s k, n k -> b s n",
            (("batch", "seq", 32), (64, 32), ("batch", "seq", 64)),
            {"b": BATCH, "s": SEQUENCE, "k": SUMMED, "n": "columns"},
        ),
        (
            "attention",
            "b h s d!, b h t d!, b h t d! -> b h s d!",
            (("batch", 4, "seq", 8),) * 4,
            {
                "b": BATCH,
                "h": "heads",
                "s": SEQUENCE,
                "t": SEQUENCE,
                "d": "heads",
            },
        ),
        (
            "embedding",
            "v h, b s -> b s h",
            ((1000, 32), ("batch", "seq"), ("batch", "seq", 32)),
            {
                "v": "rows of the table",
                "h": DIM_2,
                "b": BATCH,
                "s": SEQUENCE,
            },
        ),
        (
            "expert_matmul",
            "e b c k, e n k -> e b c n",
            ((4, "batch", 16, 32), (4, 64, 32), (4, "batch", 16, 64)),
            {
                "e": "the experts",
                "b": BATCH,
                "c": DIM_2,
                "k": SUMMED,
                "n": "columns",
            },
        ),
    ],
)
def test_factors_are_named_by_what_an_axis_cuts(
    kind: str, rule: str, shapes: tuple[tuple[int | str, ...], ...], wanted: dict[str, str]
) -> None:
    assert words(kind, rule, shapes) == wanted


def test_an_unknown_op_has_no_words() -> None:
    assert words("mystery", None, ((8,), (8,))) == {}
