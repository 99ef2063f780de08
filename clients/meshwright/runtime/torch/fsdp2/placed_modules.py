"""Tensor parallelism of a module: the placements that its forward runs with."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import suppress
from typing import Literal

import torch
from torch import nn
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import ParallelStyle, parallelize_module

from meshwright.runtime.ranks import LOADED
from meshwright.runtime.torch.fsdp2.microbatch_forward import MicrobatchForward
from meshwright.runtime.torch.fsdp2.placed_module import PlacedModule, distributed
from meshwright.runtime.torch.module_check.meta_copy import meta_copy
from meshwright.schema import Graph, MeshwrightError, PlanError
from meshwright.stages.module_placements import ModulePlacements, Placement

Flow = Literal["local", "dtensor"]


def place_modules(
    module: nn.Module, placements: ModulePlacements, flow: Flow, graph: Graph, mesh: DeviceMesh
) -> dict[int, nn.Parameter]:
    """Apply placements to a module. Returns the new parameters by the id of the old ones."""
    names = names_in_graph(module, graph)
    kept = list(module.parameters())  # so that their ids stay theirs
    replaced: dict[int, nn.Parameter] = {}
    styles: dict[str, ParallelStyle] = {}
    for path, placed in placements.modules.items():
        own = module.get_submodule(path).named_parameters(recurse=False)
        parameters: dict[str, Placement] = {
            name: placed.parameters.get(names.get(id(each), ""), "replicate") for name, each in own
        }
        styles[path] = PlacedModule(path, placed, parameters, replaced, is_local=flow == "local")
    parallelize_module(module, mesh, styles)
    for part in module.modules():
        for name, parameter in list(part.named_parameters(recurse=False)):
            key = id(parameter)
            is_in_flow = flow == "dtensor" or names.get(key) in placements.of_tail
            if key not in replaced and is_in_flow and not isinstance(parameter, DTensor):
                placement = placements.raw.get(names.get(key, ""), "replicate")
                replaced[key] = distributed(parameter, mesh, placement)
            if key in replaced:
                part.register_parameter(name, replaced[key])
    del kept
    return replaced


def names_in_graph(module: nn.Module, graph: Graph) -> dict[int, str]:
    """The name that the graph has for each parameter, by the id of the parameter."""
    known = {tensor.name for tensor in graph.tensors if tensor.role == "parameter"}
    pairs = module.named_parameters(remove_duplicate=False)
    return {id(parameter): name for name, parameter in pairs if name in known}


def flow_that_runs(
    module: nn.Module,
    placements: ModulePlacements,
    graph: Graph,
    mesh: DeviceMesh,
    sizes: Mapping[str, int],
) -> Flow:
    """The flow with which the forward and its backward pass run, tried on fake tensors.

    Local shards come first. A forward that reshapes to sizes of the whole model (`x.view(rows,
    length, heads, -1)`) needs DTensors. `sizes` are the symbols of the graph on one rank. Raises
    PlanError with the errors if the forward runs with neither.
    """
    failures = []
    if placements.no_local:
        failures.append(f"on local shards, {placements.no_local}")
    else:
        failure = _failure(module, placements, "local", graph, mesh, sizes)
        if failure is None:
            return "local"
        failures.append(f"on local shards, {failure}")
    failure = _failure(module, placements, "dtensor", graph, mesh, sizes)
    if failure is None:
        return "dtensor"
    failures.append(f"on DTensors, {failure}")
    raise PlanError(
        f"the forward of {type(module).__name__} does not run on {mesh.size()} tensor-parallel "
        f"ranks: {'; '.join(failures)}. Use a plan without tensor parallelism, or the engine "
        "'graph'"
    )


def _failure(
    module: nn.Module,
    placements: ModulePlacements,
    flow: Flow,
    graph: Graph,
    mesh: DeviceMesh,
    sizes: Mapping[str, int],
) -> str | None:
    """The error of a step on fake tensors; None if it runs."""
    forward = MicrobatchForward(graph, mesh.device_type, placements)
    device = mesh.device_type
    log = logging.getLogger("torch._subclasses.fake_tensor")
    level = log.level
    log.setLevel(logging.CRITICAL)  # a failure is an answer
    try:
        # fake tensors are of the device of those that the forward makes
        with FakeTensorMode(allow_non_fake_inputs=True), forward.context():
            copy = meta_copy(module, graph, device)
            place_modules(copy, placements, flow, graph, mesh)
            inputs = {
                tensor.name: torch.zeros(
                    tensor.dims(sizes), dtype=getattr(torch, tensor.dtype), device=device
                )
                for tensor in graph.tensors
                if tensor.role in LOADED
            }
            loss = forward.loss(copy, inputs)
            with suppress(DataDependentOutputException):  # fake tensors have no values to read
                torch.autograd.backward(loss)
    except MeshwrightError as error:
        return error.detail
    except Exception as error:  # user code and DTensor raise errors of any class
        return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
    finally:
        log.setLevel(level)
    return None
