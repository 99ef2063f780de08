"""Copies of modules on the meta device, with the dtypes of the plan's graph."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Mapping

import torch

from meshwright.schema import Graph

T = torch.Tensor


def meta_copy(
    module: torch.nn.Module, graph: Graph, device: str | torch.device = "meta"
) -> torch.nn.Module:
    """The module without values, in the dtypes of the graph.

    A graph has the dtypes of its capture, and the module may have wider ones. With another device,
    call it in a FakeTensorMode.
    """
    check_forwards(module)
    dtypes = _dtypes(module, graph)
    tensors = {id(t): t for own in module.modules() for t in _tensors(own)}
    memo = {id_: _empty(tensor, dtypes, device) for id_, tensor in tensors.items()}
    return copy.deepcopy(module, memo)


def check_forwards(module: torch.nn.Module) -> None:
    """Raise TypeError for a forward that is a plain function of one instance.

    In a copy, it reads the parameters of the original.
    """
    for path, part in module.named_modules():
        if inspect.isfunction(vars(part).get("forward")):
            raise TypeError(
                f"the forward of {path or type(part).__name__!r} is a function of this instance"
            )


def _tensors(module: torch.nn.Module) -> list[T]:
    """The parameters and buffers of one module, and its attributes that are tensors."""
    registered = [*module._parameters.values(), *module._buffers.values()]
    return [t for t in (*registered, *vars(module).values()) if isinstance(t, T)]


def _dtypes(module: torch.nn.Module, graph: Graph) -> dict[int | torch.dtype, torch.dtype]:
    """The dtype in the graph of each tensor, by id, and of each dtype of parameters.

    The second is that of tensors that the graph lacks.
    """
    planned = {t.name: t.dtype for t in graph.tensors if t.role in ("parameter", "buffer")}
    dtypes: dict[int | torch.dtype, torch.dtype] = {}
    for pairs in (module.named_parameters, module.named_buffers):
        for name, tensor in pairs(remove_duplicate=False):
            if name in planned:
                dtype: torch.dtype = getattr(torch, planned[name])
                dtypes[id(tensor)] = dtype
                if isinstance(tensor, torch.nn.Parameter):
                    dtypes.setdefault(tensor.dtype, dtype)
    return dtypes


def _empty(
    tensor: T, dtypes: Mapping[int | torch.dtype, torch.dtype], device: str | torch.device
) -> T:
    dtype = dtypes.get(id(tensor)) or dtypes.get(tensor.dtype, tensor.dtype)
    empty = torch.empty(tensor.shape, dtype=dtype, device=device)
    if isinstance(tensor, torch.nn.Parameter):
        return torch.nn.Parameter(empty, requires_grad=tensor.requires_grad)
    return empty
