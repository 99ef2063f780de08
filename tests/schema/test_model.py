"""Copies of models: like another but for some fields."""

from __future__ import annotations

from meshwright.schema import Redistribution, Step
from meshwright.schema.layout import Dim, Layout, SubDim


def test_a_like_one_is_what_a_copy_is_and_shares_what_it_keeps():
    layout = Layout(dims=(Dim(parts=(SubDim(size=8),)),))
    step = Step(kind="slice", axes=("a",), payload_bytes=0, ns=0.0, to=layout)
    one = Redistribution(tensor="x", op=None, traffic="activation", forward=(step,), ns=2.0)
    other = one.like(tensor="y", op="reader", input=1)
    assert other == one.model_copy(update={"tensor": "y", "op": "reader", "input": 1})
    assert other.model_dump() == {
        **one.model_dump(), "tensor": "y", "op": "reader", "input": 1
    }  # fmt: skip
    assert Redistribution.model_validate(other.model_dump()) == other
    assert other.forward is one.forward
    assert (one.tensor, one.op) == ("x", None)
