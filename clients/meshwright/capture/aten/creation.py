"""Converters of calls that create tensors."""

from __future__ import annotations

from functools import partial

from meshwright.capture.aten.call import AtenCall, Converter, plain_attr
from meshwright.capture.program import Node, Value


def _arange(call: AtenCall) -> None:
    start, end, step = (call.args.get(name) for name in ("start", "end", "step"))
    call.op("arange", [], start=start or 0, end=end, step=1 if step is None else step)


def _full(call: AtenCall, *, value: float | None = None) -> None:
    fill = call.args["fill_value"] if value is None else value
    call.op("full", [], value=plain_attr(fill))


def _eye(call: AtenCall) -> None:
    """An identity matrix: equality of row and column numbers."""
    rows, columns = call.out.shape
    row_numbers, column_numbers = (Value("", (count,), "int64") for count in (rows, columns))
    for numbers in (row_numbers, column_numbers):
        call.nodes.append(
            Node(
                "arange",
                [],
                [numbers],
                {"start": 0, "end": numbers.shape[0], "step": 1},
                call.module,
            )
        )
    row_numbers = call.step("reshape", [row_numbers], (rows, 1))
    mask = Value("", call.out.shape, "bool")
    call.nodes.append(Node("eq", [row_numbers, column_numbers], [mask], {}, call.module))
    call.op("cast", [mask], dtype=call.out.dtype)


def _one_hot(call: AtenCall) -> None:
    call.op("one_hot", [call.args["self"]], classes=call.out.shape[-1])


CONVERTERS: dict[str, Converter] = {
    "arange": _arange,
    **dict.fromkeys(("full", "full_like", "new_full"), _full),
    **dict.fromkeys(("zeros", "zeros_like", "new_zeros"), partial(_full, value=0)),
    # uninitialized values are unspecified, so that zeros are valid
    **dict.fromkeys(("empty", "empty_like", "new_empty"), partial(_full, value=0)),
    **dict.fromkeys(("ones", "ones_like", "new_ones"), partial(_full, value=1)),
    "eye": _eye,
    "one_hot": _one_hot,
    "scalar_tensor": lambda call: call.op("full", [], value=plain_attr(call.args["s"])),
}
