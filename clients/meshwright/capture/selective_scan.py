"""Selective scan of state-space models in transformers, captured as one op.

Without the kernels of mamba_ssm these models loop over the sequence in Python, or over chunks whose
number depends on the length. A trace of either would hold for one length only.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
import torch.nn.functional as F

from meshwright.capture.interpreter.recurrence import selective_scan
from meshwright.capture.linear_attention import FUNCTIONS, METHODS, no_state
from meshwright.capture.substitution import substituted

T = torch.Tensor
_OP = torch.library.custom_op("meshwright::selective_scan", selective_scan, mutates_args=())
_OP.register_fake(lambda x, *_: torch.empty_like(x))


def _scan(x: T, dt: T, a: T, b: T, c: T) -> T:
    result: T = _OP(x, dt, a, b, c)
    return result


def scans_as_ops(head: type) -> AbstractContextManager[None]:
    """A context in which scans and linear attention of the head's module are one op each."""
    module = sys.modules[head.__module__]
    functions = {**_SCANS, **FUNCTIONS}
    return substituted(
        *((module, name, functions[name]) for name in functions if name in vars(module)),
        *(
            (kind, name, METHODS[name])
            for kind in vars(module).values()
            if isinstance(kind, type)
            for name in METHODS
            if name in vars(kind)
        ),
    )


def _steps(dt: T, bias: T | None, *, is_softplus: bool, limits: Sequence[float] | None) -> T:
    if bias is not None:
        dt = dt + bias
    if is_softplus:
        dt = F.softplus(dt)
    return dt if limits is None else dt.clamp(*limits)


def _mamba(
    hidden_states: T,
    dt: T,
    A: T,
    B: T,
    C: T,
    D: T | None = None,
    z: T | None = None,
    delta_bias: T | None = None,
    delta_softplus: bool = False,
    return_last_state: bool = False,
    **_: Any,
) -> T:
    """Mamba scan with channels as heads of one element: x and dt [b, h, t], B and C [b, n, t]."""
    no_state(return_last_state)
    bias = None if delta_bias is None else delta_bias.to(dt.dtype)
    steps = _steps(dt.transpose(1, 2), bias, is_softplus=delta_softplus, limits=None)
    x = hidden_states.transpose(1, 2)
    rows, columns = (tensor.transpose(1, 2).unsqueeze(2).float() for tensor in (B, C))
    result = _scan(x.float().unsqueeze(-1), steps.float(), A, rows, columns)
    y = result.squeeze(-1).to(x.dtype).transpose(1, 2)
    if D is not None:
        y = y + hidden_states * D[None, :, None]
    return y if z is None else y * F.silu(z)


def _mamba2(
    hidden_states: T,
    dt: T,
    A: T,
    B: T,
    C: T,
    chunk_size: int,  # noqa: ARG001  # an implementation detail of kernels
    D: T | None = None,
    dt_bias: T | None = None,
    initial_states: T | None = None,
    dt_softplus: bool = False,
    dt_limit: tuple[float, float] = (0.0, float("inf")),
    return_final_states: bool = False,
    **_: Any,
) -> T:
    """Mamba-2 scan: x [b, t, h, p], dt [b, t, h], A [h], B and C [b, t, g, n]."""
    no_state(return_final_states or initial_states is not None)
    bias = None if dt_bias is None else dt_bias.to(dt.dtype)
    open_ended = tuple(dt_limit) == (0.0, float("inf"))
    limits = None if open_ended else dt_limit
    steps = _steps(dt, bias, is_softplus=dt_softplus, limits=limits)
    x = hidden_states.float()
    y = _scan(x, steps.float(), A.float()[:, None], B.float(), C.float())
    return y if D is None else y + D[:, None] * x


_SCANS: Mapping[str, Callable[..., T]] = {
    "mamba_selective_scan": _mamba,
    "mamba2_chunk_scan": _mamba2,
}
