"""A plan for a MindSpore network: strategies of primitives and settings of the context.

The module holds data only; `meshwright.runtime.mindspore.shard` applies it to a network.
"""

from __future__ import annotations

from typing import Any

from meshwright.convert.grid import DeviceGrid
from meshwright.convert.mindspore import Alias, layout_arguments
from meshwright.convert.plan import Refusal
from meshwright.convert.strategy import Cuts
from meshwright.schema import ConversionError, Model

# MindSpore splits loaded data with a virtual operator, whose strategy has this name
DATASET = "Default/_VirtualDataset-op0"
Layouts = tuple[tuple[Alias, ...], ...]


class PrimitiveStrategy(Model):
    """The arguments of one primitive's `.shard()`, one entry per tensor input.

    in_layout, out_layout: aliases of Layouts, where cuts alone would place parts on other ranks.
    out_strategy: cuts of the result, where partial sums are reduced directly after the op.
    mp_comm_recompute: of a recomputed primitive, whether the collectives of its result run again.
    """

    in_strategy: Cuts
    in_layout: Layouts | None = None
    out_strategy: Cuts | None = None
    out_layout: Layouts | None = None
    recompute: bool = False
    mp_comm_recompute: bool = True


class Otherwise(Model):
    """A tensor whose layout MindSpore reaches by other collectives than the plan.

    planned: the collectives of the plan. done: the collectives that MindSpore infers.
    """

    tensor: str
    planned: tuple[str, ...]
    done: tuple[str, ...]
    reason: str


class MindSporeNetwork(Model):
    """A plan for MindSpore's semi-automatic parallel mode.

    primitives: strategies by path, such as `blocks.0.q.matmul`.
    operators: MindSpore's full operator names to these paths.
    reshapes: full names to the number of input dims; a Reshape takes the layout of its neighbors.
    context: keyword arguments of `mindspore.set_auto_parallel_context`.
    dataset: the cuts of the loaded tensors.
    whole: parameters that the parallel optimizer does not shard.
    parallel_optimizer_comm_recompute: parameters that are gathered again for the backward pass.
    refused: ops and parameters that MindSpore cannot express; MindSpore would choose a strategy for
    such an op.
    otherwise: tensors for which MindSpore runs other collectives than the plan.
    """

    plan: str
    mesh: DeviceGrid
    primitives: dict[str, PrimitiveStrategy]
    operators: dict[str, str]
    reshapes: dict[str, int]
    context: dict[str, Any]
    dataset: Cuts
    whole: tuple[str, ...] = ()
    parallel_optimizer_comm_recompute: tuple[str, ...] = ()
    refused: tuple[Refusal, ...] = ()
    otherwise: tuple[Otherwise, ...] = ()

    def strategy_file(self) -> dict[str, Any]:
        """MindSpore's JSON of strategies by operator, for `load_operator_strategy_file`.

        MindSpore reads the file in the search mode sharding_propagation instead of searching, and
        requires every operator in it. Raises ConversionError where `refused` is not empty.
        """
        if self.refused:
            raise ConversionError(
                f"a strategy file has every operator's strategy, and {len(self.refused)} cannot be "
                f"expressed: {self.refused[0].reason}"
            )
        reshapes = {name: _item(((1,) * rank,)) for name, rank in self.reshapes.items()}
        strategies: dict[str, Any] = {DATASET: _item(self.dataset), **reshapes}
        results: dict[str, Any] = {}
        layouts: dict[str, Any] = {}
        result_layouts: dict[str, Any] = {}
        for name, path in self.operators.items():
            strategy = self.primitives[path]
            strategies[name] = _item(strategy.in_strategy)
            if strategy.out_strategy is not None:
                results[name] = _item(strategy.out_strategy)
            if strategy.in_layout is not None:
                layouts[name] = self._layouts(strategy.in_layout)
            if strategy.out_layout is not None:
                result_layouts[name] = self._layouts(strategy.out_layout)
        tables = {
            "parallel_strategy_item": strategies,
            "parallel_out_strategy_item": results,
            "parallel_layout_value_item": layouts,
            "parallel_out_layout_value_item": result_layouts,
        }
        return {"current_stage": 0, **{key: items for key, items in tables.items() if items}}

    def _layouts(self, layouts: Layouts) -> dict[str, Any]:
        arguments = layout_arguments(self.mesh)
        names = list(arguments["alias_name"])
        return {
            str(place): {
                "alias_name": names,
                "dev_matrix": list(arguments["device_matrix"]),
                "interleaved_parallel": False,
                "tensor_map": [_positions(alias, names) for alias in aliases],
            }
            for place, aliases in enumerate(layouts)
        }


def _positions(alias: Alias, names: list[str]) -> list[int]:
    axes = alias if isinstance(alias, tuple) else (alias,)
    return [-1 if name == "None" else len(names) - 1 - names.index(name) for name in axes]


def _item(cuts: Cuts) -> dict[str, Any]:
    return {"parallel_strategy": [list(dim_cuts) for dim_cuts in cuts], "stage": 0}
