"""Calls that make tensors from nothing."""

from __future__ import annotations

from functools import partial

from meshwright.capture.aten.call import Call, Converter, plain_attr
from meshwright.capture.program import Node, Value


def _arange(call: Call) -> None:
    start, end, step = (call.args.get(name) for name in ("start", "end", "step"))
    call.op("arange", [], start=start or 0, end=end, step=1 if step is None else step)


def _full(call: Call, *, value: float | None = None) -> None:
    fill = call.args["fill_value"] if value is None else value
    call.op("full", [], value=plain_attr(fill))


def _eye(call: Call) -> None:
    """Where the number of the row is that of the column."""
    rows, columns = call.out.shape
    down, across = (Value("", (count,), "int64") for count in (rows, columns))
    for made in (down, across):
        call.nodes.append(
            Node("arange", [], [made], {"start": 0, "end": made.shape[0], "step": 1}, call.module)
        )
    down = call.step("reshape", [down], (rows, 1))
    same = Value("", call.out.shape, "bool")
    call.nodes.append(Node("eq", [down, across], [same], {}, call.module))
    call.op("cast", [same], dtype=call.out.dtype)


def _one_hot(call: Call) -> None:
    call.op("one_hot", [call.args["self"]], classes=call.out.shape[-1])


CONVERTERS: dict[str, Converter] = {
    "arange": _arange,
    **dict.fromkeys(("full", "full_like", "new_full"), _full),
    **dict.fromkeys(("zeros", "zeros_like", "new_zeros"), partial(_full, value=0)),
    # what nobody has written yet may be anything, and so zeros
    **dict.fromkeys(("empty", "empty_like", "new_empty"), partial(_full, value=0)),
    **dict.fromkeys(("ones", "ones_like", "new_ones"), partial(_full, value=1)),
    "eye": _eye,
    "one_hot": _one_hot,
    "scalar_tensor": lambda call: call.op("full", [], value=plain_attr(call.args["s"])),
}
