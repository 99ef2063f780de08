"""Calls that make tensors from nothing."""

from __future__ import annotations

from functools import partial

from meshwright.capture.aten.call import Call, Converter, plain_attr


def _arange(call: Call) -> None:
    start, end, step = (call.args.get(name) for name in ("start", "end", "step"))
    call.op("arange", [], start=start or 0, end=end, step=1 if step is None else step)


def _full(call: Call, *, value: float | None = None) -> None:
    fill = call.args["fill_value"] if value is None else value
    call.op("full", [], value=plain_attr(fill))


def _one_hot(call: Call) -> None:
    call.op("one_hot", [call.args["self"]], classes=call.out.shape[-1])


CONVERTERS: dict[str, Converter] = {
    "arange": _arange,
    **dict.fromkeys(("full", "full_like", "new_full"), _full),
    **dict.fromkeys(("zeros", "zeros_like", "new_zeros"), partial(_full, value=0)),
    **dict.fromkeys(("ones", "ones_like", "new_ones"), partial(_full, value=1)),
    "one_hot": _one_hot,
    "scalar_tensor": lambda call: call.op("full", [], value=plain_attr(call.args["s"])),
}
