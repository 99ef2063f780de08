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


def _integers(call: AtenCall, count: int) -> Value:
    """The integers from 0 to below a count."""
    numbers = Value("", (count,), "int64")
    attrs = {"start": 0, "end": count, "step": 1}
    call.nodes.append(Node("arange", [], [numbers], attrs, call.module))
    return numbers


def _eye(call: AtenCall) -> None:
    """An identity matrix: equality of row and column numbers."""
    rows, columns = call.out.shape
    row_numbers, column_numbers = _integers(call, rows), _integers(call, columns)
    row_numbers = call.step("reshape", [row_numbers], (rows, 1))
    mask = Value("", call.out.shape, "bool")
    call.nodes.append(Node("eq", [row_numbers, column_numbers], [mask], {}, call.module))
    call.op("cast", [mask], dtype=call.out.dtype)


def _linspace(call: AtenCall) -> None:
    """Evenly spaced numbers: start + k * (end - start) / (count - 1)."""
    start, end = call.args["start"], call.args["end"]
    (count,) = call.out.shape
    is_plain = isinstance(start, (int, float)) and isinstance(end, (int, float))
    if count < 2 or not is_plain or not call.out.dtype.startswith("float"):
        return call.unknown()
    numbers = call.cast(_integers(call, count), "float32")
    numbers = call.step("mul", [numbers], (count,), other=end - start)
    numbers = call.step("div", [numbers], (count,), other=count - 1)
    numbers = call.step("add", [numbers], (count,), other=start)
    return call.op("cast", [numbers], dtype=call.out.dtype)


def _triangle(call: AtenCall, *, is_upper: bool) -> None:
    """Row and column numbers of the elements of a triangle, row by row.

    A row has the first or the last columns, as many as it has elements. The row of an element is
    the number of rows that end before it.
    """
    rows, columns, offset = (call.args[name] for name in ("row", "col", "offset"))
    offset = offset or 0
    count = call.out.shape[1]
    row_numbers = _integers(call, rows)
    if is_upper:
        first = call.step("add", [row_numbers], (rows,), other=offset)
        first = call.step("clamp", [first], (rows,), min=0, max=columns)
        widths = call.step("neg", [first], (rows,))
        widths = call.step("add", [widths], (rows,), other=columns)
    else:
        widths = call.step("add", [row_numbers], (rows,), other=offset + 1)
        widths = call.step("clamp", [widths], (rows,), min=0, max=columns)
    ends = call.step("cumsum", [widths], (rows,), dim=0)
    elements = call.step("reshape", [_integers(call, count)], (count, 1))
    is_after = Value("", (count, rows), "bool")
    call.nodes.append(Node("ge", [elements, ends], [is_after], {}, call.module))
    row = call.step("sum", [call.cast(is_after, "int64")], (count,), dims=[1], keepdim=False)
    flat = call.step("reshape", [elements], (count,))
    end = call.step("index", [ends, row], (count,), dims=[0])
    column = call.step("sub", [flat, end], (count,))
    if is_upper:
        column = call.step("add", [column], (count,), other=columns)
    else:
        width = call.step("index", [widths, row], (count,), dims=[0])
        column = call.step("add", [column, width], (count,))
    pair = [call.step("reshape", [numbers], (1, count)) for numbers in (row, column)]
    both = call.step("concat", pair, (2, count), dim=0)
    call.op("cast", [both], dtype=call.out.dtype)


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
    "linspace": _linspace,
    "tril_indices": partial(_triangle, is_upper=False),
    "triu_indices": partial(_triangle, is_upper=True),
    "one_hot": _one_hot,
    "scalar_tensor": lambda call: call.op("full", [], value=plain_attr(call.args["s"])),
}
