"""The strategy of one op for its MindSpore primitive.

Cuts say which device holds what only by MindSpore's order of devices, the factors as they stand in
the inputs; where a plan's axes lie in another order, Layouts say it, which some operators take and
some do not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from meshwright.convert.grid import DeviceGrid
from meshwright.convert.mindspore import Alias, MindSporeLayout, to_mindspore
from meshwright.convert.mindspore_network import PrimitiveStrategy
from meshwright.convert.strategy import Cuts, OpStrategy
from meshwright.runtime.stage import PlannedStage
from meshwright.schema import Axis, ConversionError, Layout, Op

# measured with MindSpore 2.10.0: "does not support config layout", or no strategy is found
_NO_LAYOUT = frozenset({
    "embedding", "index_select", "conv", "one_hot", "softmax_cross_entropy", "sum", "mean", "amax",
    "amin", "prod",
})  # fmt: skip
# measured: of a product MindSpore scatters the rows, of a lookup the first dim
_SCATTERED_DIM = {"matmul": -2, "embedding": 0}


def written(
    op: Op, planned: PlannedStage, grid: DeviceGrid, strategies: Mapping[str, OpStrategy]
) -> PrimitiveStrategy:
    """What the op's primitive is told; ConversionError, naming the op, where that is not the plan.

    strategies: of ops by their rules, as far as there are any.
    """
    again = op.name in planned.recomputed
    if op.name not in planned.ops:
        source = planned.source(op.inputs[0])
        lies = planned.as_read(source.root) or planned.at_rest(source.root)
        layout = to_mindspore(planned.seen(op.inputs[0], lies), grid, name=f"op {op.name!r}")
        found = _strategy(op, grid, [layout.aliases(grid)], _axes(layout, grid))
    elif op.kind == "one_hot":
        layout = to_mindspore(planned.at_rest(op.outputs[0]), grid, name=f"op {op.name!r}")
        numbers: list[tuple[Alias, ...]] = [()] * (len(op.inputs) - 1)
        found = _strategy(op, grid, [layout.aliases(grid), *numbers], _axes(layout, grid))
    else:
        own = strategies[op.name]
        # a lookup's devices are counted along its ids first
        order = own.layouts[::-1] if op.kind == "embedding" else own.layouts
        used = dict.fromkeys(name for aliases in order for name in _names(aliases))
        found = _strategy(op, grid, own.layouts, list(used))
        result = _result(op, planned, grid)
        if result is not None:
            kept = found.in_layout is not None
            found = found.model_copy(
                update={
                    "out_strategy": (_cuts(result, grid),),
                    "out_layout": (result.aliases(grid),) if kept else None,
                }
            )
    return found.model_copy(update={"recompute": again}) if again else found


def _strategy(
    op: Op, grid: DeviceGrid, layouts: Sequence[tuple[Alias, ...]], used: Sequence[str]
) -> PrimitiveStrategy:
    sizes = dict(zip(grid.names, grid.sizes, strict=True))
    cuts: Cuts = tuple(
        tuple(grid.size(tuple(Axis(name) for name in _names([own]))) for own in aliases)
        for aliases in layouts
    )
    counted = [name for name in grid.names if sizes[name] > 1]
    cutting = [name for name in used if sizes[Axis(name)] > 1]
    if cutting == counted[: len(cutting)]:
        return PrimitiveStrategy(in_strategy=cuts)
    if op.kind in _NO_LAYOUT:
        raise ConversionError(
            f"op {op.name!r} ({op.kind}): the cuts {cuts} over {'×'.join(cutting)} lie on other "
            f"ranks in MindSpore, which counts devices along {'×'.join(counted)}, and this "
            "operator takes no Layout; pin it to other axes"
        )
    return PrimitiveStrategy(in_strategy=cuts, in_layout=tuple(layouts))


def _result(op: Op, planned: PlannedStage, grid: DeviceGrid) -> MindSporeLayout | None:
    """The layout in which a partial result is reduced, where the operator can be told."""
    dim = _SCATTERED_DIM.get(op.kind)
    made = op.outputs[0]
    if dim is None or made not in planned.tensors:
        return None
    rest = planned.at_rest(made)
    if not rest.partial:
        return None
    reduced = scattered(made, planned)
    if reduced is None or not _is_told(rest, reduced, dim):
        reduced = rest.model_copy(update={"partial": {}})
        if op.kind != "embedding":  # a product is reduced whole where nothing is said
            return None
    return to_mindspore(reduced, grid, name=f"tensor {made!r}")


def scattered(tensor: str, planned: PlannedStage) -> Layout | None:
    """Where the plan scatters a partial tensor first, for all readers alike."""
    first = [
        moved.forward[0]
        for moved in planned.stage.redistributions
        if moved.tensor == tensor and moved.forward
    ]
    same = first and all(step.to == first[0].to for step in first)
    if not same or first[0].kind != "reduce_scatter" or first[0].to.partial:
        return None
    return first[0].to


def is_told(op: Op | None, rest: Layout, reduced: Layout) -> bool:
    """Whether the op that makes it can be told to scatter its result like this."""
    dim = None if op is None else _SCATTERED_DIM.get(op.kind)
    return dim is not None and _is_told(rest, reduced, dim)


def _is_told(rest: Layout, reduced: Layout, dim: int) -> bool:
    """Whether the partial axes come to lie on this dim alone, behind those that it has."""
    before, after = (
        [tuple(axis for part in own.parts for axis in part.axes) for own in layout.dims]
        for layout in (rest, reduced)
    )
    if any(own.segments for own in (*rest.dims, *reduced.dims)):
        return False
    place = dim % len(before)
    others = all(a == b for k, (a, b) in enumerate(zip(before, after, strict=True)) if k != place)
    gained = after[place][len(before[place]) :]
    return (
        others
        and after[place][: len(before[place])] == before[place]
        and set(gained) == set(rest.partial)
    )


def _axes(layout: MindSporeLayout, grid: DeviceGrid) -> list[str]:
    return _names(layout.aliases(grid))


def _cuts(layout: MindSporeLayout, grid: DeviceGrid) -> tuple[int, ...]:
    return tuple(
        grid.size(tuple(Axis(name) for name in _names([own]))) for own in layout.aliases(grid)
    )


def _names(aliases: Sequence[Alias]) -> list[str]:
    each = [own if isinstance(own, tuple) else (own,) for own in aliases]
    return [name for own in each for name in own if name != "None"]
