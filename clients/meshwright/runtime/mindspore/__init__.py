"""Plans on MindSpore networks: strategies of primitives, and settings of the context."""

from __future__ import annotations

from mindspore import nn, set_auto_parallel_context
from mindspore.ops import Primitive
from mindspore.parallel import Layout

from meshwright.capture.mindspore.primitives import primitives_of
from meshwright.convert.mindspore import layout_arguments
from meshwright.convert.mindspore_network import Layouts, MindSporeNetwork
from meshwright.schema import PlanError


def shard(network: nn.Cell, plan: MindSporeNetwork) -> None:
    """Set the strategy of every primitive of a network, and the plan's settings of MindSpore.

    Call it in semi-automatic mode, before the network is compiled. Raises PlanError for a primitive
    or a parameter that the network does not have, before any change.
    """
    primitives: dict[str, Primitive] = dict(primitives_of(network))
    for path in plan.primitives:
        if path not in primitives:
            raise PlanError(
                f"the plan has a strategy for {path!r}, and the network has no primitive there. An "
                "operator of a function (ops.add, +) has no primitive: use ops.Add() in the cell, "
                "or load the strategy file"
            )
    settle(network, plan)
    for path, primitive in plan.primitives.items():
        if primitive.in_layout is not None:
            result = None if primitive.out_layout is None else _layouts(plan, primitive.out_layout)
            primitives[path].shard(_layouts(plan, primitive.in_layout), result)
        else:
            primitives[path].shard(primitive.in_strategy, primitive.out_strategy)
        if primitive.recompute:
            primitives[path].recompute()
            # as Cell.recompute(mp_comm_recompute=...) does
            primitives[path].add_prim_attr("recompute_comm_op", primitive.mp_comm_recompute)


def settle(network: nn.Cell, plan: MindSporeNetwork) -> None:
    """Set the plan's settings only, for a program that loads the strategy file.

    Raises PlanError for a parameter that the network does not have.
    """
    parameters = {parameter.name: parameter for parameter in network.get_parameters()}
    for name in (*plan.whole, *plan.parallel_optimizer_comm_recompute):
        if name not in parameters:
            raise PlanError(f"the plan has the parameter {name!r}, and the network does not")
    set_auto_parallel_context(**plan.context)
    for name in plan.whole:
        parameters[name].parallel_optimizer = False
    for name in plan.parallel_optimizer_comm_recompute:
        parameters[name].parallel_optimizer_comm_recompute = True


def _layouts(plan: MindSporeNetwork, layouts: Layouts) -> tuple[Layout, ...]:
    arguments = layout_arguments(plan.mesh)
    return tuple(
        Layout(arguments["device_matrix"], arguments["alias_name"])(*aliases) for aliases in layouts
    )


__all__ = ["settle", "shard"]
