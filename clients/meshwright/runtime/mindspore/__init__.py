"""A plan on a MindSpore network: strategies of its primitives, settings of its context."""

from __future__ import annotations

from mindspore import nn, set_auto_parallel_context
from mindspore.ops import Primitive
from mindspore.parallel import Layout

from meshwright.capture.mindspore.primitives import primitives_of
from meshwright.convert.mindspore import layout_arguments
from meshwright.convert.mindspore_network import Layouts, MindSporeNetwork
from meshwright.schema import PlanError


def shard(network: nn.Cell, plan: MindSporeNetwork) -> None:
    """Give every primitive of a network its strategy, and MindSpore the plan's settings.

    In semi-automatic mode, before the network is compiled. Raises PlanError for a primitive or a
    parameter that the network has not, before anything is changed.
    """
    primitives: dict[str, Primitive] = dict(primitives_of(network))
    for path in plan.primitives:
        if path not in primitives:
            raise PlanError(
                f"the plan has a strategy for {path!r}, and the network has no primitive there; an "
                "operator of a function (ops.add, +) has none of its own: write ops.Add() in the "
                "cell, or load the strategy file"
            )
    settle(network, plan)
    for path, own in plan.primitives.items():
        if own.in_layout is not None:
            result = None if own.out_layout is None else _layouts(plan, own.out_layout)
            primitives[path].shard(_layouts(plan, own.in_layout), result)
        else:
            primitives[path].shard(own.in_strategy, own.out_strategy)
        if own.recompute:
            primitives[path].recompute()


def settle(network: nn.Cell, plan: MindSporeNetwork) -> None:
    """The plan's settings alone: for a program whose strategies come from the strategy file.

    Raises PlanError for a parameter that the network has not.
    """
    parameters = {own.name: own for own in network.get_parameters()}
    for name in plan.whole:
        if name not in parameters:
            raise PlanError(f"the plan has the parameter {name!r}, and the network has not")
    set_auto_parallel_context(**plan.context)
    for name in plan.whole:
        parameters[name].parallel_optimizer = False


def _layouts(plan: MindSporeNetwork, layouts: Layouts) -> tuple[Layout, ...]:
    arguments = layout_arguments(plan.mesh)
    return tuple(
        Layout(arguments["device_matrix"], arguments["alias_name"])(*aliases) for aliases in layouts
    )


__all__ = ["settle", "shard"]
