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
    """Parameter -> state -> this rank's part of it, or one number.

    CheckpointError of a state that is neither shaped as its parameter nor a single number.
    """
    _check_members(optimizer, shards)
    return {
        name: {
            state: _kept(name, state, value, local_of(shards[own]).shape)
            for state, value in optimizer.state[shards[own]].items()
        }
        for name, own in first_shards(shards).items()
        if shards[own] in optimizer.state
    }


def groups_of(optimizer: torch.optim.Optimizer, shards: Shards) -> tuple[OptimizerGroup, ...]:
    """The optimizer's groups; CheckpointError of an option that JSON does not hold."""
    _check_members(optimizer, shards)
    names = _names(shards)
    return tuple(
        OptimizerGroup(
            parameters=tuple(dict.fromkeys(names[own] for own in group["params"])),
            options={
                option: _plain(option, value)
                for option, value in group.items()
                if option != "params"
            },
        )
        for group in optimizer.param_groups
    )


def joined_groups(every: Iterable[tuple[OptimizerGroup, ...]]) -> tuple[OptimizerGroup, ...]:
    """Of all ranks: groups at one place with the same options are one."""
    found: list[OptimizerGroup] = []
    places: dict[tuple[int, str], int] = {}
    for groups in every:
        for place, group in enumerate(groups):
            key = (place, repr(sorted(group.options.items())))
            if key not in places:
                places[key] = len(found)
                found.append(group)
                continue
            before = found[places[key]]
            names = dict.fromkeys((*before.parameters, *group.parameters))
            found[places[key]] = before.model_copy(update={"parameters": tuple(names)})
    return tuple(found)


def set_options(
    optimizer: torch.optim.Optimizer, shards: Shards, groups: tuple[OptimizerGroup, ...]
) -> None:
    """Options as they were saved, by the parameters; CheckpointError where groups differ."""
    _check_members(optimizer, shards)
    names = _names(shards)
    for group in optimizer.param_groups:
        own = {names[shard] for shard in group["params"]}
        saved = [one for one in groups if own & set(one.parameters)]
        if len(saved) != 1 or not own <= set(saved[0].parameters):
            raise CheckpointError(
                f"the optimizer has a group of {len(own)} parameters, {min(own)!r} among them, "
                f"which were in {len(saved)} groups when the checkpoint was saved; group them as "
                "then"
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
    """Shard -> state -> this rank's part, or a number: in place of all that was there.

    at_rest: of the stages.
    """
    optimizer.state.clear()
    for which, own in states.items():
        wraps, shape = at_rest[which.stage], local_of(shards[which].detach()).shape
        optimizer.state[shards[which]] = {
            state: wraps.wrapped(which.name, value) if value.shape == shape else value
            for state, value in own.items()
        }


def members(optimizer: torch.optim.Optimizer, shards: Shards) -> Shards:
    """The shards that an optimizer has."""
    own = {id(shard) for group in optimizer.param_groups for shard in group["params"]}
    return {which: shard for which, shard in shards.items() if id(shard) in own}


def _names(shards: Shards) -> dict[torch.nn.Parameter, str]:
    return {shard: which.name for which, shard in shards.items()}


def _check_members(optimizer: torch.optim.Optimizer, shards: Shards) -> None:
    known = {id(shard) for shard in shards.values()}
    for group in optimizer.param_groups:
        for own in group["params"]:
            if id(own) not in known:
                raise CheckpointError(
                    f"the optimizer has a parameter of the shape {list(own.shape)} that is not the "
                    "job's; make it of trained.parameters()"
                )


def _kept(name: str, state: str, value: object, shape: torch.Size) -> T:
    found = torch.as_tensor(value) if isinstance(value, bool | int | float) else value
    if isinstance(found, T):
        local = local_of(found).detach()
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
        return [_plain(option, one) for one in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise CheckpointError(
        f"the optimizer's option {option!r} is a {type(value).__name__}, which is not kept; "
        "numbers, text and lists of them are"
    )
