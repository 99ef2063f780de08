"""Linear attention and gated recurrences of transformers, captured as one op each.

Their PyTorch code loops over the sequence or over its chunks. The functions are found by their
names in the module of a model's head, whichever model it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from meshwright.capture.interpreter.linear_attention import (
    gated_delta_rule,
    linear_recurrence,
    wkv,
)

T = torch.Tensor

_DELTA_RULE = torch.library.custom_op(
    "meshwright::gated_delta_rule", gated_delta_rule, mutates_args=()
)
_DELTA_RULE.register_fake(lambda _q, _k, value, *_: torch.empty_like(value))
_RECURRENCE = torch.library.custom_op(
    "meshwright::linear_recurrence", linear_recurrence, mutates_args=()
)
_RECURRENCE.register_fake(lambda x, _: torch.empty_like(x))
_WKV = torch.library.custom_op("meshwright::wkv", wkv, mutates_args=())
_WKV.register_fake(
    lambda _w, _u, k, _v, *states: (torch.empty_like(k), *(torch.empty_like(s) for s in states))
)


def _delta_rule(
    query: T,
    key: T,
    value: T,
    g: T,
    beta: T,
    chunk_size: int = 64,  # noqa: ARG001  # the result does not depend on it
    initial_state: T | None = None,
    output_final_state: bool = False,
    use_qk_l2norm_in_kernel: bool = False,
    cu_seqlens: T | None = None,
    **_: Any,
) -> tuple[T, None]:
    """Gated delta rule (Gated DeltaNet), or with a decay for each key channel (Kimi Delta)."""
    no_state(initial_state is not None or output_final_state)
    if cu_seqlens is not None:
        raise NotImplementedError("the gated delta rule of packed sequences (cu_seqlens) is no op")
    wide = [x.float() for x in (query, key, value, g, beta)]
    if use_qk_l2norm_in_kernel:
        wide[:2] = [x * torch.rsqrt((x * x).sum(-1, keepdim=True) + 1e-6) for x in wide[:2]]
    wide[0] = wide[0] * query.shape[-1] ** -0.5
    result: T = _DELTA_RULE(*wide)
    return result.to(query.dtype), None


def _wkv(
    time_decay: T,
    time_first: T,
    key: T,
    value: T,
    state: Any = None,
    return_state: bool = False,
) -> tuple[T, None]:
    """RWKV, from an empty state."""
    no_state(state is not None or return_state)
    first = torch.zeros_like(key[:, 0], dtype=torch.float32)
    wide = [x.float() for x in (-torch.exp(time_decay), time_first, key, value)]
    result: T = _WKV(*wide, first, first, torch.full_like(first, -1e38))[0]
    return result.to(key.dtype), None


def _linear_scan(
    _module: torch.nn.Module,
    hidden_states: T,
    recurrent_gate: T,
    reset: T,
    recurrent_states: T | None,
    acc_dtype: torch.dtype = torch.float32,
) -> tuple[T, None]:
    """Real-gated linear recurrent unit (Griffin), from an empty state."""
    no_state(recurrent_states is not None)
    gate = (recurrent_gate * ~reset).to(acc_dtype)
    result: T = _RECURRENCE(hidden_states.to(acc_dtype), gate)
    return result.to(hidden_states.dtype), None


def no_state(is_requested: bool) -> None:
    if is_requested:
        raise NotImplementedError("a training graph neither reads nor returns the state of a scan")


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "torch_chunk_gated_delta_rule": _delta_rule,
    "chunk_kimi_delta_attention": _delta_rule,
    "rwkv_linear_attention": _wkv,
}
METHODS: Mapping[str, Callable[..., Any]] = {"_rnn_scan": _linear_scan}
