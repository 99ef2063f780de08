"""Optimizer states by the names of parameters, with the options of their groups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch

from meshwright.runtime.torch.at_rest import Wraps, local_of
from meshwright.runtime.torch.checkpoint.shards import ShardId, Shards, first_shards
from meshwright.schema import CheckpointError
from meshwright.schema.checkpoint import OptimizerGroup

T = torch.Tensor


def states_of(optimizer: torch.optim.Optimizer, shards: Shards) -> dict[str, dict[str, T]]:
    """This rank's optimizer states, by parameter and state: a shard or a number.

    Raises CheckpointError for a state that is neither shaped as its parameter nor a number.
    """
    _check_members(optimizer, shards)
    return {
        name: {
            state: _local_state(name, state, value, local_of(shards[which]).shape)
            for state, value in optimizer.state[shards[which]].items()
        }
        for name, which in first_shards(shards).items()
        if shards[which] in optimizer.state
    }


def groups_of(optimizer: torch.optim.Optimizer, shards: Shards) -> tuple[OptimizerGroup, ...]:
    """The parameter groups; raises CheckpointError for an option that is not valid JSON."""
    _check_members(optimizer, shards)
    names = _names(shards)
    return tuple(
        OptimizerGroup(
            parameters=tuple(dict.fromkeys(names[shard] for shard in group["params"])),
            options={
                option: _plain(option, value)
                for option, value in group.items()
                if option != "params"
            },
        )
        for group in optimizer.param_groups
    )


def joined_groups(every: Iterable[tuple[OptimizerGroup, ...]]) -> tuple[OptimizerGroup, ...]:
    """The parameter groups of all ranks; groups at one position with equal options are merged."""
    merged: list[OptimizerGroup] = []
    places: dict[tuple[int, str], int] = {}
    for groups in every:
        for place, group in enumerate(groups):
            key = (place, repr(sorted(group.options.items())))
            if key not in places:
                places[key] = len(merged)
                merged.append(group)
                continue
            before = merged[places[key]]
            names = dict.fromkeys((*before.parameters, *group.parameters))
            merged[places[key]] = before.model_copy(update={"parameters": tuple(names)})
    return tuple(merged)


def set_options(
    optimizer: torch.optim.Optimizer, shards: Shards, groups: tuple[OptimizerGroup, ...]
) -> None:
    """Set the saved options of each parameter group; raises CheckpointError if groups differ."""
    _check_members(optimizer, shards)
    names = _names(shards)
    for group in optimizer.param_groups:
        of_group = {names[shard] for shard in group["params"]}
        saved = [candidate for candidate in groups if of_group & set(candidate.parameters)]
        if len(saved) != 1 or not of_group <= set(saved[0].parameters):
            raise CheckpointError(
                f"the optimizer has a group of {len(of_group)} parameters, {min(of_group)!r} "
                f"among them, which were in {len(saved)} groups when the checkpoint was saved; "
                "group them as then"
            )
        for option, value in saved[0].options.items():
            if option != "params":
                is_tuple = isinstance(group.get(option), tuple)
                group[option] = tuple(value) if is_tuple else value


def put_states(
    optimizer: torch.optim.Optimizer,
    shards: Shards,
    states: Mapping[ShardId, Mapping[str, T]],
    at_rest: Mapping[int, Wraps],
) -> None:
    """Replace the optimizer states, by shard and state: a shard or a number.

    `at_rest` are the wrappers of the stages.
    """
    optimizer.state.clear()
    for which, of_shard in states.items():
        wraps, shape = at_rest[which.stage], local_of(shards[which].detach()).shape
        optimizer.state[shards[which]] = {
            state: wraps.wrapped(which.name, value) if value.shape == shape else value
            for state, value in of_shard.items()
        }


def members(optimizer: torch.optim.Optimizer, shards: Shards) -> Shards:
    """The shards in the parameter groups of an optimizer."""
    ids = {id(shard) for group in optimizer.param_groups for shard in group["params"]}
    return {which: shard for which, shard in shards.items() if id(shard) in ids}


def _names(shards: Shards) -> dict[torch.nn.Parameter, str]:
    return {shard: which.name for which, shard in shards.items()}


def _check_members(optimizer: torch.optim.Optimizer, shards: Shards) -> None:
    known = {id(shard) for shard in shards.values()}
    for group in optimizer.param_groups:
        for shard in group["params"]:
            if id(shard) not in known:
                raise CheckpointError(
                    f"the optimizer has a parameter of the shape {list(shard.shape)} that is not "
                    "the job's; make it of trained.parameters()"
                )


def _local_state(name: str, state: str, value: object, shape: torch.Size) -> T:
    tensor = torch.as_tensor(value) if isinstance(value, bool | int | float) else value
    if isinstance(tensor, T):
        local = local_of(tensor).detach()
        if local.shape == shape or local.dim() == 0:
            return local
        has = f"the shape {list(local.shape)}"
    else:
        has = f"the type {type(value).__name__}"
    raise CheckpointError(
        f"the optimizer's state {state!r} of {name!r} has {has}, its part of the parameter "
        f"{list(shape)}: only states of that shape and single numbers are kept"
    )


def _plain(option: str, value: Any) -> Any:
    if isinstance(value, T) and value.dim() == 0:
        return value.item()
    if isinstance(value, tuple | list):
        return [_plain(option, item) for item in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise CheckpointError(
        f"the optimizer's option {option!r} is a {type(value).__name__}, which is not kept; "
        "numbers, text and lists of them are"
    )
