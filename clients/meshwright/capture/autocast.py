"""Autocast regions of a traced program, as casts in its graph.

PyTorch casts below the level at which torch.export records ops, and only for tensors on a device of
the region. Here a function mode calls `to` for the arguments of an op instead, so that a trace on
the meta device has the casts and dtypes of an accelerator. A tensor is cast once for all readers in
a region: a parameter as in PyTorch's cache of weights, an activation as in compiled programs.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from meshwright.capture.autocast_ops import POLICIES, Policy
from meshwright.capture.substitution import substituted
from meshwright.schema.errors import GraphError

T = torch.Tensor

CPU_NOTE = (
    "an autocast region of the device type 'cpu' has the casts of an accelerator in the graph. Use "
    "the device type of the plan's devices"
)
EARLY_NOTE = (
    "an autocast region casts nothing, because it was created before the capture on a machine "
    "without CUDA, where PyTorch disables it. Create it in the forward, or import the module in "
    "the capture (`meshwright capture torch`, `capture_factory`)"
)
_ACCELERATOR = "cuda"
_REQUESTED = "_meshwright_requested"  # an attribute of regions that were created in a capture
_CASTABLE = (torch.float32, torch.bfloat16, torch.float16)


@dataclass(frozen=True, slots=True)
class _AutocastRegion:
    """An autocast region: its low dtype, and whether it casts and keeps the casts."""

    dtype: torch.dtype
    enabled: bool
    keeps_casts: bool = True


class AutocastRegions:
    """The regions that the traced program is in, the innermost last, and notes on them."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self._regions = [_AutocastRegion(torch.get_autocast_dtype(_ACCELERATOR), enabled=False)]
        self._casts: dict[tuple[int, int, torch.dtype], tuple[T, T]] = {}

    def enter(self, region: _AutocastRegion) -> None:
        self._regions.append(region)
        self._announce()

    def leave(self) -> None:
        self._regions.pop()
        if len(self._regions) == 1:
            self._casts.clear()
        self._announce()

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    @property
    def low(self) -> torch.dtype | None:
        """The low dtype of the innermost region; None if it is disabled."""
        region = self._regions[-1]
        return region.dtype if region.enabled else None

    def cast(self, tensor: T, dtype: torch.dtype) -> T:
        """A floating tensor in a dtype, others as they are. The cast of a tensor is kept."""
        if tensor.dtype not in _CASTABLE or tensor.dtype == dtype:
            return tensor
        if not self._regions[-1].keeps_casts or not torch.is_grad_enabled():
            return tensor.to(dtype)
        key = (id(tensor), tensor._version, dtype)
        if key not in self._casts:
            self._casts[key] = (tensor, tensor.to(dtype))
        return self._casts[key][1]

    def _announce(self) -> None:
        """Set PyTorch's state, which programs and `custom_fwd` read."""
        region = self._regions[-1]
        torch.set_autocast_enabled(_ACCELERATOR, region.enabled)
        torch.set_autocast_dtype(_ACCELERATOR, region.dtype)


@contextmanager
def autocast_regions(dtype: torch.dtype | None = None) -> Iterator[AutocastRegions]:
    """A context for tracing: regions cast by ops; all of the trace is one of `dtype`, if given."""
    before = torch.is_autocast_enabled(_ACCELERATOR), torch.get_autocast_dtype(_ACCELERATOR)
    state = AutocastRegions()

    def enter(region: Any) -> Any:
        state.enter(_AutocastRegion(region.fast_dtype, region._enabled, region._cache_enabled))
        if region.device == "cpu" and region._enabled:
            state.note(CPU_NOTE)
        is_early = region.device == _ACCELERATOR and not hasattr(region, _REQUESTED)
        if is_early and not region._enabled and not torch.cuda.is_available():
            state.note(EARLY_NOTE)
        return region

    def leave(region: Any, *_: Any) -> bool:
        del region
        state.leave()
        return False

    with requested_autocast(), ExitStack() as stack:
        autocast = torch.amp.autocast_mode.autocast
        stack.enter_context(
            substituted((autocast, "__enter__", enter), (autocast, "__exit__", leave))
        )
        stack.enter_context(_regions_of_transformers())
        stack.enter_context(_CastMode(state))
        try:
            if dtype is not None:
                state.enter(_AutocastRegion(dtype, enabled=True))
            yield state
        finally:
            torch.set_autocast_enabled(_ACCELERATOR, before[0])
            torch.set_autocast_dtype(_ACCELERATOR, before[1])


def requested_autocast() -> AbstractContextManager[None]:
    """A context in which new `torch.autocast` objects are enabled without their device."""

    def init(
        region: Any,
        device_type: str,
        dtype: torch.dtype | None = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
    ) -> None:
        default = device_type if torch.amp.is_autocast_available(device_type) else _ACCELERATOR
        region.device, region._enabled = device_type, enabled
        setattr(region, _REQUESTED, True)
        region.fast_dtype = dtype or torch.get_autocast_dtype(default)
        region._cache_enabled = cache_enabled is not False

    return substituted((torch.amp.autocast_mode.autocast, "__init__", init))


def _regions_of_transformers() -> AbstractContextManager[None]:
    """Regions of transformers, which it leaves out for tensors on the meta device."""
    home = sys.modules.get("transformers.utils.generic")
    original = None if home is None else getattr(home, "maybe_autocast", None)

    def maybe_autocast(device_type: str, *args: Any, **keywords: Any) -> Any:
        assert original is not None
        return original(_ACCELERATOR if device_type == "meta" else device_type, *args, **keywords)

    modules = [] if original is None else list(sys.modules.values())
    return substituted(
        *(
            (module, "maybe_autocast", maybe_autocast)
            for module in modules
            if getattr(module, "__dict__", {}).get("maybe_autocast") is original
        )
    )


class _CastMode(TorchFunctionMode):
    """Mode that casts the arguments of ops in autocast regions."""

    def __init__(self, state: AutocastRegions) -> None:
        super().__init__()
        self._state = state
        self._running: list[FunctionType] = []

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        del types
        keywords = dict(kwargs or {})
        low = self._state.low
        if low is None:
            return func(*args, **keywords)
        if isinstance(func, FunctionType):
            return self._call_python(func, args, keywords)
        policy = POLICIES.get(getattr(func, "__name__", ""))
        if policy is None or keywords.get("out") is not None:
            return func(*args, **keywords)
        if policy == "refused":
            raise GraphError(
                f"autocast refuses {func.__name__}, as PyTorch does. Use "
                f"{func.__name__}_with_logits, or call it in torch.autocast(..., enabled=False)"
            )
        if policy == "float32" and keywords.get("dtype") is not None:
            return func(*args, **keywords)
        dtype = _dtype(policy, low, [*args, *keywords.values()])
        return func(*self._cast(args, dtype), **self._cast(keywords, dtype))

    def _call_python(self, func: FunctionType, args: Any, keywords: Mapping[str, Any]) -> Any:
        """Call a Python function of torch, whose body calls ops."""
        checks = [name for name in func.__globals__ if name.startswith("has_torch_function")]
        # a method of Tensor that calls the one of its base comes here again by the same name
        if not checks or func in self._running:
            return func(*args, **keywords)
        originals = {name: func.__globals__[name] for name in checks}
        func.__globals__.update(dict.fromkeys(checks, _no_override))
        self._running.append(func)
        try:
            with self:
                return func(*args, **keywords)
        finally:
            self._running.pop()
            func.__globals__.update(originals)

    def _cast(self, item: Any, dtype: torch.dtype) -> Any:
        if isinstance(item, T):
            return self._state.cast(item, dtype)
        if type(item) in (list, tuple):
            return type(item)(self._cast(part, dtype) for part in item)
        if type(item) is dict:
            return {key: self._cast(part, dtype) for key, part in item.items()}
        return item


def _no_override(*_: Any) -> bool:
    return False


def _dtype(policy: Policy, low: torch.dtype, arguments: Sequence[Any]) -> torch.dtype:
    """The dtype of the arguments of an op in a region with a low dtype."""
    if policy == "low":
        return low
    is_wide = any(isinstance(a, T) and a.dtype == torch.float32 for a in arguments)
    return torch.float32 if policy == "float32" or is_wide else low
