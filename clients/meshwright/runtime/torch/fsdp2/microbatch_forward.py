"""The user's forward on one microbatch, with its loss."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import nn
from torch.distributed.tensor.experimental import implicit_replication
from torch.distributed.tensor.parallel import loss_parallel

from meshwright.runtime.torch.autocast import autocast_dtypes
from meshwright.runtime.torch.fsdp2.attention_on_cpu import register_attention_on_cpu
from meshwright.runtime.torch.module_check.forward_arguments import forward_arguments
from meshwright.schema import Graph, PlanError, Tensor
from meshwright.stages.module_placements import ModulePlacements

T = torch.Tensor


class MicrobatchForward:
    """The forward of a module with the inputs of a graph."""

    def __init__(self, graph: Graph, device_type: str, placements: ModulePlacements) -> None:
        self._graph = graph
        self._device_type = device_type
        self._has_dtensors = bool(placements.modules)
        self._shards_classes = placements.shards_classes
        self._autocast = next(iter(autocast_dtypes(graph)), None)
        if self._has_dtensors:
            register_attention_on_cpu()

    def loss(self, module: nn.Module, inputs: Mapping[str, T]) -> T:
        """The loss that the forward returns: alone, or first in a tuple or mapping."""

        def value(tensor: Tensor) -> T:
            return inputs[tensor.name]

        arguments = forward_arguments(module, self._graph, value)
        if self._autocast is None:
            output = module(*arguments.positional, **arguments.named)
        else:
            with torch.autocast(self._device_type, self._autocast):
                output = module(*arguments.positional, **arguments.named)
        return _loss_of(module, output)

    @contextmanager
    def context(self) -> Iterator[None]:
        """The context of a forward and its backward pass.

        The loss reads DTensors, and user code may mix them with tensors of its own.
        """
        if not self._has_dtensors:
            yield
            return
        with loss_parallel() if self._shards_classes else nullcontext(), implicit_replication():
            yield


def _loss_of(module: nn.Module, output: Any) -> T:
    if isinstance(output, Mapping):
        output = next(iter(output.values()), None)
    elif isinstance(output, (tuple, list)):
        output = output[0] if output else None
    if isinstance(output, torch.Tensor) and output.numel() == 1:
        return output
    raise PlanError(
        f"the forward of {type(module).__name__} returns no loss first; it is a "
        f"{type(output).__name__}. Return the loss, alone or first in a tuple"
    )
