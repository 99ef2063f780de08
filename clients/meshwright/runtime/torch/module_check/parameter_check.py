"""The parameters of a module against those of the plan's graph."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from meshwright.schema import Graph, ModuleMismatch, Tensor

REMEDY = "Train the module that was captured, or capture this module and plan again"
# a parameter of these dtypes may stand for one of any dtype: it is as wide or wider, or the one
# in which programs compute when they cast
_FULL = (torch.float32, torch.float64)


def check_parameters(
    graph: Graph, shapes: Mapping[str, tuple[int, ...]], module: torch.nn.Module
) -> None:
    """Raise ModuleMismatch if the parameters of the module are not those of the graph."""
    parameters = dict(module.named_parameters(remove_duplicate=False))
    dtypes: dict[str, tuple[str, torch.dtype]] = {}
    for tensor in graph.tensors:
        if tensor.role != "parameter":
            continue
        name, shape = tensor.name, shapes[tensor.name]
        if name not in parameters:
            raise ModuleMismatch(
                f"the plan's graph {graph.id} has the parameter {name!r} of shape "
                f"{list(shape)}, the module has none of this name. {REMEDY}"
            )
        if tuple(parameters[name].shape) != shape:
            raise ModuleMismatch(
                f"parameter {name!r} has the shape {list(shape)} in the plan's graph "
                f"{graph.id}, and {list(parameters[name].shape)} in the module. {REMEDY}"
            )
        if parameters[name].is_meta:
            raise ModuleMismatch(
                f"parameter {name!r} of the module is on the meta device, without value. Create "
                "the module on a device"
            )
        _check_form(graph, tensor, parameters[name], dtypes)
    _check_buffers(graph, module)
    _check_hooks(module)


def _check_buffers(graph: Graph, module: torch.nn.Module) -> None:
    """Raise ModuleMismatch for a buffer or constant of the graph without value in the module."""
    buffers = {name for name, _ in module.named_buffers(remove_duplicate=False)}
    read = {name for op in graph.ops for name in op.inputs}
    for tensor in graph.tensors:
        if tensor.role in ("buffer", "constant") and tensor.name in read - buffers:
            raise ModuleMismatch(
                f"the plan's graph {graph.id} has the {tensor.role} {tensor.name!r}, the module "
                "has no buffer of this name. Register the tensor with register_buffer in the "
                "module, capture it and plan again"
            )


def _check_form(
    graph: Graph,
    tensor: Tensor,
    parameter: torch.nn.Parameter,
    dtypes: dict[str, tuple[str, torch.dtype]],
) -> None:
    """Check dtype and requires_grad. `dtypes` are the first parameters of each planned dtype."""
    name, dtype = tensor.name, parameter.dtype
    planned: torch.dtype = getattr(torch, tensor.dtype)
    if dtype != planned and dtype not in _FULL:
        raise ModuleMismatch(
            f"parameter {name!r} is {tensor.dtype} in the plan's graph {graph.id}, and "
            f"{_name(dtype)} in the module. Convert the module to {tensor.dtype}, or capture it in "
            f"{_name(dtype)} and plan again"
        )
    first, of_first = dtypes.setdefault(tensor.dtype, (name, dtype))
    if dtype != of_first:
        raise ModuleMismatch(
            f"parameters {first!r} and {name!r} are {tensor.dtype} in the plan's graph "
            f"{graph.id}, and {_name(of_first)} and {_name(dtype)} in the module. Convert the "
            "module to one dtype, or capture it as it is and plan again"
        )
    if tensor.trainable != parameter.requires_grad:
        raise ModuleMismatch(
            f"parameter {name!r} is {_training(tensor.trainable)} in the plan's graph {graph.id}, "
            f"and {_training(parameter.requires_grad)} in the module. Call "
            f"requires_grad_({tensor.trainable}) on the parameter, or capture the module as it is "
            "and plan again"
        )
    if getattr(parameter, "_backward_hooks", None):
        raise ModuleMismatch(
            f"parameter {name!r} of the module has a gradient hook, which a plan does not run. "
            "Remove the hook, and change gradients after the step"
        )


def other_dtypes(graph: Graph, module: torch.nn.Module) -> dict[str, str]:
    """The dtypes of the graph's parameters that the module has in another dtype."""
    parameters = dict(module.named_parameters(remove_duplicate=False))
    pairs = {
        tensor.dtype: _name(parameters[tensor.name].dtype)
        for tensor in graph.tensors
        if tensor.role == "parameter"
    }
    return {planned: dtype for planned, dtype in pairs.items() if planned != dtype}


def _check_hooks(module: torch.nn.Module) -> None:
    """Raise ModuleMismatch for changes of gradients that are no part of a graph."""
    for path, part in module.named_modules():
        if part._backward_hooks or part._backward_pre_hooks:
            raise ModuleMismatch(
                f"module {path or type(part).__name__!r} has a backward hook, which a plan does "
                "not run. Remove the hook, and change gradients after the step"
            )
        if getattr(part, "scale_grad_by_freq", False):
            raise ModuleMismatch(
                f"module {path!r} scales its gradient by frequency (scale_grad_by_freq), which a "
                "plan does not. Set scale_grad_by_freq to False"
            )


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _training(is_trainable: bool) -> str:
    return "trainable" if is_trainable else "frozen"
