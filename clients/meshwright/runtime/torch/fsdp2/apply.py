"""Application of a strategy to a module, in place, by PyTorch's own parts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import chain

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed._composable.checkpoint_activation import checkpoint
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import Shard

from meshwright.launch_options.module_strategy import ModuleStrategy
from meshwright.runtime.torch.fsdp2.blocks import block_paths, gathered_paths, return_no_view
from meshwright.runtime.torch.fsdp2.placed_modules import Flow, names_in_graph, place_modules
from meshwright.schema import Graph, PlanError

REPLICAS, SHARDS, TENSOR = "dp_replicate", "dp_shard", "tp"
_DTYPES = {2: torch.bfloat16, 4: torch.float32, 8: torch.float64}


def device_mesh(strategy: ModuleStrategy, device: torch.device) -> DeviceMesh:
    """The mesh of all ranks, with the axes dp_replicate, dp_shard and tp."""
    return DeviceMesh(device.type, strategy.ranks, mesh_dim_names=(REPLICAS, SHARDS, TENSOR))


def apply_strategy(
    module: nn.Module,
    strategy: ModuleStrategy,
    flow: Flow | None,
    graph: Graph,
    mesh: DeviceMesh,
) -> tuple[FSDPModule, ...]:
    """Apply a strategy to a module. The values of the first rank count.

    Returns the module and its parts that gather their parameters together.
    """
    _broadcast(module)
    precision = precision_of(module, strategy, graph)
    kept = list(module.parameters())  # ids stay theirs
    names = names_in_graph(module, graph)
    dims = {
        key: strategy.shard_dims[name] for key, name in names.items() if name in strategy.shard_dims
    }
    if flow is not None:
        replaced = place_modules(module, strategy.placements, flow, graph, mesh[TENSOR])
        dims = {id(replaced[key]) if key in replaced else key: dim for key, dim in dims.items()}
    del kept
    blocks = block_paths(module)
    if strategy.recomputes:
        if not blocks:
            raise PlanError(
                f"the plan recomputes blocks, and {type(module).__name__} has no list of repeated "
                "modules. Use a plan without recomputation"
            )
        for path in blocks:
            checkpoint(module.get_submodule(path))
    parts = [module.get_submodule(path) for path in gathered_paths(module, blocks)]
    for part in parts:
        return_no_view(part)
    parts.append(module)

    def shard_dim(parameter: nn.Parameter) -> Shard | None:
        dim = dims.get(id(parameter), 0)
        # other dims have to divide
        return Shard(dim) if dim and parameter.shape[dim] % strategy.shards == 0 else None

    over = mesh[REPLICAS, SHARDS] if strategy.replicas > 1 else mesh[SHARDS]
    scalars = {own for own in module.parameters() if not own.ndim}
    for part in parts:
        fully_shard(
            part,
            mesh=over,
            reshard_after_forward=not strategy.keeps_parameters,
            shard_placement_fn=shard_dim,
            mp_policy=precision,
            ignored_params=scalars,
        )
    sharded = tuple(part for part in parts if isinstance(part, FSDPModule))
    if strategy.reduction == "sum":
        for part in sharded:
            part.set_gradient_divide_factor(1.0)
    return sharded


def _broadcast(module: nn.Module) -> None:
    """Give all ranks the parameters and buffers of the first one."""
    with torch.no_grad():
        for tensor in chain(module.parameters(), module.buffers()):
            value = tensor.detach().contiguous()
            dist.broadcast(value, src=0)
            tensor.copy_(value)


def precision_of(module: nn.Module, strategy: ModuleStrategy, graph: Graph) -> MixedPrecisionPolicy:
    """The policy by which a module of a wider dtype computes in that of the graph."""
    counts = Counter(tensor.dtype for tensor in graph.tensors if tensor.role == "parameter")
    planned = getattr(torch, counts.most_common(1)[0][0])
    own = {parameter.dtype for parameter in _floats(module)}
    if own == {planned}:
        reduced = _DTYPES.get(strategy.reduce_bytes or 0, planned)
        return MixedPrecisionPolicy(reduce_dtype=None if reduced == planned else reduced)
    if any(dtype.itemsize < planned.itemsize for dtype in own) or torch.float64 in own:
        return MixedPrecisionPolicy()
    return MixedPrecisionPolicy(
        param_dtype=planned, reduce_dtype=_DTYPES.get(strategy.reduce_bytes or 0)
    )


def _floats(module: nn.Module) -> Iterator[nn.Parameter]:
    return (parameter for parameter in module.parameters() if parameter.is_floating_point())
