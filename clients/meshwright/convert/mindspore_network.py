"""What a MindSpore network is given of a plan: strategies of primitives, settings of the context.

Data only; `meshwright.runtime.mindspore.shard` puts it on a network.
"""

from __future__ import annotations

from typing import Any

from meshwright.convert.grid import DeviceGrid
from meshwright.convert.mindspore import Alias, layout_arguments
from meshwright.convert.plan import Refusal
from meshwright.convert.strategy import Cuts
from meshwright.schema import ConversionError, Model

# MindSpore cuts what is loaded by an operator of its own, which has a strategy under this name
DATASET = "Default/_VirtualDataset-op0"
Layouts = tuple[tuple[Alias, ...], ...]


class PrimitiveStrategy(Model):
    """What one primitive's `.shard()` is given; of every input of it that is a tensor.

    in_layout, out_layout: the aliases of Layouts, where the cuts alone would put parts on other
    ranks.
    out_strategy: of the result, where partial sums are reduced right behind the op.
    """

    in_strategy: Cuts
    in_layout: Layouts | None = None
    out_strategy: Cuts | None = None
    out_layout: Layouts | None = None
    recompute: bool = False


class Otherwise(Model):
    """A tensor of which MindSpore makes the same layout in another way than the plan.

    planned, done: the collectives of the plan, and those that MindSpore's own inference puts there.
    """

    tensor: str
    planned: tuple[str, ...]
    done: tuple[str, ...]
    reason: str


class MindSporeNetwork(Model):
    """A plan in semi-automatic mode.

    primitives: by path, `blocks.0.q.matmul`. operators: MindSpore's full names -> these paths.
    reshapes: full name -> dims of the input; a Reshape takes what its neighbours want.
    whole: parameters that the parallel optimizer leaves alone. context: keywords of
    `mindspore.set_auto_parallel_context`. dataset: the cuts of what is loaded.
    refused: what MindSpore cannot be told; such an op has no strategy, and MindSpore would choose
    one. otherwise: what it does in its own way.
    """

    plan: str
    mesh: DeviceGrid
    primitives: dict[str, PrimitiveStrategy]
    operators: dict[str, str]
    reshapes: dict[str, int]
    context: dict[str, Any]
    dataset: Cuts
    whole: tuple[str, ...] = ()
    refused: tuple[Refusal, ...] = ()
    otherwise: tuple[Otherwise, ...] = ()

    def strategy_file(self) -> dict[str, Any]:
        """MindSpore's own JSON of strategies by operator, for `load_operator_strategy_file`.

        MindSpore reads it in the search mode sharding_propagation, in place of the search, and
        refuses one in which an operator is missing: ConversionError where anything is refused.
        """
        if self.refused:
            raise ConversionError(
                f"a strategy file says every operator's strategy, and {len(self.refused)} cannot "
                f"be said: {self.refused[0].reason}"
            )
        reshapes = {name: _item(((1,) * rank,)) for name, rank in self.reshapes.items()}
        whole: dict[str, Any] = {DATASET: _item(self.dataset), **reshapes}
        results: dict[str, Any] = {}
        layouts: dict[str, Any] = {}
        result_layouts: dict[str, Any] = {}
        for name, path in self.operators.items():
            own = self.primitives[path]
            whole[name] = _item(own.in_strategy)
            if own.out_strategy is not None:
                results[name] = _item(own.out_strategy)
            if own.in_layout is not None:
                layouts[name] = self._layouts(own.in_layout)
            if own.out_layout is not None:
                result_layouts[name] = self._layouts(own.out_layout)
        found = {
            "parallel_strategy_item": whole,
            "parallel_out_strategy_item": results,
            "parallel_layout_value_item": layouts,
            "parallel_out_layout_value_item": result_layouts,
        }
        return {"current_stage": 0, **{key: items for key, items in found.items() if items}}

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
    own = alias if isinstance(alias, tuple) else (alias,)
    return [-1 if name == "None" else len(names) - 1 - names.index(name) for name in own]


def _item(cuts: Cuts) -> dict[str, Any]:
    return {"parallel_strategy": [list(own) for own in cuts], "stage": 0}
