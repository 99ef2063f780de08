"""The style of `parallelize_module` for a module with placements."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from torch.distributed.tensor import Placement as TorchPlacement
from torch.distributed.tensor.parallel import ParallelStyle

from meshwright.schema import PlanError
from meshwright.stages.module_placements import ModulePlacement, Placement

T = torch.Tensor


class PlacedModule(ParallelStyle):
    """Parameters, inputs and output of a module as its placements state.

    parameters: the placements by the names of the module's attributes. replaced: the DTensors of
    parameters by the id of the parameter that each replaced, so that tied ones stay tied.
    """

    def __init__(
        self,
        path: str,
        placed: ModulePlacement,
        parameters: dict[str, Placement],
        replaced: dict[int, nn.Parameter],
        *,
        is_local: bool,
    ) -> None:
        super().__init__()
        self._path = path
        self._placed = placed
        self._parameters = parameters
        self._replaced = replaced
        self._is_local = is_local

    def _apply(self, module: nn.Module, device_mesh: DeviceMesh) -> nn.Module:
        for name, parameter in list(module.named_parameters(recurse=False)):
            if isinstance(parameter, DTensor):
                continue
            known = self._replaced.get(id(parameter))
            if known is None:
                known = distributed(parameter, device_mesh, self._parameters.get(name, "replicate"))
                self._replaced[id(parameter)] = known
            module.register_parameter(name, known)
        module.register_forward_pre_hook(
            lambda _, args, kwargs: self._placed_inputs(args, kwargs, device_mesh),
            with_kwargs=True,
        )
        module.register_forward_hook(lambda _, __, output: self._placed_output(output))
        return module

    def _placed_inputs(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], mesh: DeviceMesh
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        entry = self._placed.input
        arrives = torch_placement(entry.arrives if self._is_local else "replicate")

        def placed(value: Any) -> Any:
            if not isinstance(value, torch.Tensor):
                return value
            if not isinstance(value, DTensor):
                value = DTensor.from_local(value, mesh, [arrives], run_check=False)
            return _redistributed(value, entry.needed)

        return tuple(map(placed, args)), {name: placed(own) for name, own in kwargs.items()}

    def _placed_output(self, output: Any) -> Any:
        if not isinstance(output, DTensor):
            if self._is_local and self._placed.is_local:
                raise PlanError(f"module {self._path!r} returns a {type(output).__name__}")
            return output
        output = _redistributed(output, self._placed.output)
        return output.to_local() if self._is_local and self._placed.is_local else output


def _redistributed(tensor: DTensor, placement: Placement) -> DTensor:
    """A tensor with a placement. A value that the plan leaves partial may be reduced already."""
    (own,) = tensor.placements
    # a lookup in a part of a table, whose partial result DTensor reduces once only
    is_lookup = own.is_partial() and type(own) is not Partial
    if placement in ("any", "partial") and not is_lookup:
        return tensor
    wanted = torch_placement(placement)
    # the backward pass of a redistribution reduces its gradient, even where nothing is moved
    is_other_tensor = isinstance(wanted, Shard) and wanted.dim >= tensor.ndim
    if own == wanted or is_other_tensor:
        return tensor
    tensor = tensor.redistribute(placements=[wanted])
    return tensor.redistribute(placements=[wanted]) if is_lookup else tensor


def distributed(parameter: nn.Parameter, mesh: DeviceMesh, placement: Placement) -> nn.Parameter:
    """A parameter as a DTensor, of which all ranks have the values."""
    value = distribute_tensor(
        parameter.detach(), mesh, [torch_placement(placement)], src_data_rank=None
    )
    return nn.Parameter(value, requires_grad=parameter.requires_grad)


def torch_placement(placement: Placement) -> TorchPlacement:
    """The placement of torch.distributed.tensor on the mesh of tensor-parallel ranks."""
    return Shard(placement) if isinstance(placement, int) else Replicate()
