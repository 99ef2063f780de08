"""Conversion of layouts, strategies and plans to PyTorch, JAX and MindSpore, and back.

The results are data; a framework is imported only when a `to_torch` or `to_jax` method is called.
A layout or strategy that the target cannot express raises ConversionError with its name and the
reason.
"""

from meshwright.convert.dtensor import from_dtensor, to_dtensor
from meshwright.convert.grid import DeviceGrid, grid_of, mesh_of
from meshwright.convert.mindspore import (
    MindSporeLayout,
    from_mindspore,
    layout_arguments,
    to_mindspore,
)
from meshwright.convert.mindspore_network import MindSporeNetwork, Otherwise, PrimitiveStrategy
from meshwright.convert.mindspore_plan import network_of
from meshwright.convert.normal import normal, viewed
from meshwright.convert.partition_spec import JaxLayout, from_jax, to_jax
from meshwright.convert.placement import DTensorLayout, Placement
from meshwright.convert.plan import TARGETS, Export, Refusal, Target, export_plan
from meshwright.convert.plan_pins import ImportedPins, pins_of_plan
from meshwright.convert.rewrite import rewritten
from meshwright.convert.strategy import (
    OpStrategy,
    device_matrix,
    strategy_of_cuts,
    strategy_of_layouts,
    to_strategy,
)
from meshwright.convert.strategy_file import (
    OperatorCuts,
    StrategyFile,
    read_strategy_file,
    strategies_of_json,
)
from meshwright.convert.strategy_pins import OpName, pins_of_strategies

__all__ = [
    "TARGETS",
    "DTensorLayout",
    "DeviceGrid",
    "Export",
    "ImportedPins",
    "JaxLayout",
    "MindSporeLayout",
    "MindSporeNetwork",
    "OpName",
    "OpStrategy",
    "OperatorCuts",
    "Otherwise",
    "Placement",
    "PrimitiveStrategy",
    "Refusal",
    "StrategyFile",
    "Target",
    "device_matrix",
    "export_plan",
    "from_dtensor",
    "from_jax",
    "from_mindspore",
    "grid_of",
    "layout_arguments",
    "mesh_of",
    "network_of",
    "normal",
    "pins_of_plan",
    "pins_of_strategies",
    "read_strategy_file",
    "rewritten",
    "strategies_of_json",
    "strategy_of_cuts",
    "strategy_of_layouts",
    "to_dtensor",
    "to_jax",
    "to_mindspore",
    "to_strategy",
    "viewed",
]  # fmt: skip
