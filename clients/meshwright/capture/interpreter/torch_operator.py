"""Torch operators of kinds without a canonical form, such as `aten.lerp.Scalar`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch


def operator_of(kind: str) -> torch._ops.OpOverload | None:
    """The registered operator of a kind `namespace.name.overload`; None if there is none."""
    namespace, *rest = kind.split(".")
    if len(rest) != 2:
        return None
    packet = getattr(getattr(torch.ops, namespace), rest[0], None)
    operator = getattr(packet, rest[1], None)
    return operator if isinstance(operator, torch._ops.OpOverload) else None


def is_random(kind: str) -> bool:
    """Whether the operator of a kind may draw random numbers."""
    operator = operator_of(kind)
    return operator is not None and torch.Tag.nondeterministic_seeded in operator.tags


def shares_memory(operator: torch._ops.OpOverload) -> bool:
    """Whether a result of an operator may share memory with an argument."""
    return any(result.alias_info is not None for result in operator._schema.returns)


def arguments_of(
    operator: torch._ops.OpOverload, attrs: Mapping[str, Any], tensors: Sequence[Any]
) -> tuple[list[Any], dict[str, Any]]:
    """The positional and the keyword arguments of a call, by the operator's schema.

    attrs: with numeric sizes and torch dtypes; its `tensors` lists the argument of each tensor.
    Absent arguments have their default, or None.
    """
    named = {
        key: list(value) if isinstance(value, list) else value
        for key, value in attrs.items()
        if key != "tensors"
    }
    for place, tensor in zip(attrs["tensors"], tensors, strict=True):
        name, _, position = place.partition(".")
        if position:
            items = named.setdefault(name, [])
            items += [None] * (int(position) + 1 - len(items))
            items[int(position)] = tensor
        else:
            named[name] = tensor
    schema = operator._schema.arguments
    positional = [argument for argument in schema if not argument.kwarg_only]
    count = max(
        (i + 1 for i, argument in enumerate(positional) if argument.name in named), default=0
    )
    values = [named.get(argument.name, argument.default_value) for argument in positional[:count]]
    return values, {a.name: named[a.name] for a in schema if a.kwarg_only and a.name in named}
