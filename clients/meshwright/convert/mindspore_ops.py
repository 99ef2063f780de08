"""The strategy of one op for its MindSpore primitive.

MindSpore assigns cuts to devices in its own order, that of the factors in the inputs. Axes of a
plan in another order need Layouts, which some operators do not accept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from meshwright.convert.grid import DeviceGrid
from meshwright.convert.mindspore import Alias, MindSporeLayout, to_mindspore
from meshwright.convert.mindspore_network import PrimitiveStrategy
from meshwright.convert.strategy import Cuts, OpStrategy
from meshwright.schema import Axis, ConversionError, Layout, Op
from meshwright.stages.planned_stage import PlannedStage

# measured with MindSpore 2.10.0: "does not support config layout", or no strategy is found
_NO_LAYOUT = frozenset({
    "embedding", "index_select", "conv", "one_hot", "softmax_cross_entropy", "sum", "mean", "amax",
    "amin", "prod",
})  # fmt: skip
# measured: MindSpore scatters the rows of a matrix product and the first dim of a lookup
_SCATTERED_DIM = {"matmul": -2, "embedding": 0}


def primitive_strategy(
    op: Op, planned: PlannedStage, grid: DeviceGrid, strategies: Mapping[str, OpStrategy]
) -> PrimitiveStrategy:
    """The strategy of the op's primitive.

    `strategies` holds the strategies of ops that have a rule, by name. Raises ConversionError with
    the op's name where the primitive cannot follow the plan.
    """
    is_recomputed = op.name in planned.recomputed
    if op.name not in planned.ops:
        source = planned.source(op.inputs[0])
        source_layout = planned.as_read(source.root) or planned.at_rest(source.root)
        layout = to_mindspore(
            planned.seen(op.inputs[0], source_layout), grid, name=f"op {op.name!r}"
        )
        strategy = _strategy_of_layouts(op, grid, [layout.aliases(grid)], _axes(layout, grid))
    elif op.kind == "one_hot":
        layout = to_mindspore(planned.at_rest(op.outputs[0]), grid, name=f"op {op.name!r}")
        numbers: list[tuple[Alias, ...]] = [()] * (len(op.inputs) - 1)
        strategy = _strategy_of_layouts(
            op, grid, [layout.aliases(grid), *numbers], _axes(layout, grid)
        )
    else:
        op_strategy = strategies[op.name]
        # MindSpore counts a lookup's devices along its ids first
        order = op_strategy.layouts[::-1] if op.kind == "embedding" else op_strategy.layouts
        used = dict.fromkeys(name for aliases in order for name in _names(aliases))
        strategy = _strategy_of_layouts(op, grid, op_strategy.layouts, list(used))
        result = _result_layout(op, planned, grid)
        if result is not None:
            has_layouts = strategy.in_layout is not None
            strategy = strategy.model_copy(
                update={
                    "out_strategy": (_cuts(result, grid),),
                    "out_layout": (result.aliases(grid),) if has_layouts else None,
                }
            )
    if not is_recomputed:
        return strategy
    return strategy.model_copy(
        update={"recompute": True, "mp_comm_recompute": _repeats_collectives(op, planned)}
    )


def _repeats_collectives(op: Op, planned: PlannedStage) -> bool:
    """Whether the collectives of the op's results run again; True without any."""
    flags = [
        edge.again
        for edge in planned.stage.redistributions
        if edge.traffic == "activation"
        and edge.tensor in op.outputs
        and any(step.kind != "slice" for step in edge.forward)
    ]
    return all(flags)


def _strategy_of_layouts(
    op: Op, grid: DeviceGrid, layouts: Sequence[tuple[Alias, ...]], used: Sequence[str]
) -> PrimitiveStrategy:
    sizes = dict(zip(grid.names, grid.sizes, strict=True))
    cuts: Cuts = tuple(
        tuple(grid.size(tuple(Axis(name) for name in _names([alias]))) for alias in aliases)
        for aliases in layouts
    )
    mesh_axes = [name for name in grid.names if sizes[name] > 1]
    cut_axes = [name for name in used if sizes[Axis(name)] > 1]
    if cut_axes == mesh_axes[: len(cut_axes)]:
        return PrimitiveStrategy(in_strategy=cuts)
    if op.kind in _NO_LAYOUT:
        raise ConversionError(
            f"op {op.name!r} ({op.kind}): the cuts {cuts} over {'×'.join(cut_axes)} are on other "
            f"ranks in MindSpore, which counts devices along {'×'.join(mesh_axes)}, and this "
            "operator takes no Layout. Pin it to other axes"
        )
    return PrimitiveStrategy(in_strategy=cuts, in_layout=tuple(layouts))


def _result_layout(op: Op, planned: PlannedStage, grid: DeviceGrid) -> MindSporeLayout | None:
    """The layout after the reduction of a partial result, where the operator has that option."""
    dim = _SCATTERED_DIM.get(op.kind)
    result = op.outputs[0]
    if dim is None or result not in planned.tensors:
        return None
    rest = planned.at_rest(result)
    if not rest.partial:
        return None
    reduced = scatter_layout(result, planned)
    if reduced is None or not _is_scatter_along(rest, reduced, dim):
        reduced = rest.model_copy(update={"partial": {}})
        if op.kind != "embedding":  # without a strategy a product is reduced in full
            return None
    return to_mindspore(reduced, grid, name=f"tensor {result!r}")


def scatter_layout(tensor: str, planned: PlannedStage) -> Layout | None:
    """The layout after a reduce-scatter that all readers of a partial tensor share, or None."""
    shared = [
        move.forward
        for move in planned.stage.redistributions
        if move.tensor == tensor and move.op is None and move.traffic == "activation"
    ]
    read = planned.as_read(tensor)
    if shared and read is not None and not read.partial:
        is_scatter = all(step.kind == "reduce_scatter" for steps in shared for step in steps)
        return read if is_scatter else None
    first = [
        move.forward[0]
        for move in planned.stage.redistributions
        if move.tensor == tensor and move.forward
    ]
    is_shared = first and all(step.to == first[0].to for step in first)
    if not is_shared or first[0].kind != "reduce_scatter" or first[0].to.partial:
        return None
    return first[0].to


def can_scatter(op: Op | None, rest: Layout, reduced: Layout) -> bool:
    """Whether the primitive of the producing op can reduce-scatter its result to `reduced`."""
    dim = None if op is None else _SCATTERED_DIM.get(op.kind)
    return dim is not None and _is_scatter_along(rest, reduced, dim)


def _is_scatter_along(rest: Layout, reduced: Layout, dim: int) -> bool:
    """Whether the reduction appends the partial axes to this dim and changes no other dim."""
    before, after = (
        [tuple(axis for part in entry.parts for axis in part.axes) for entry in layout.dims]
        for layout in (rest, reduced)
    )
    if any(entry.segments for entry in (*rest.dims, *reduced.dims)):
        return False
    position = dim % len(before)
    others_equal = all(
        a == b for k, (a, b) in enumerate(zip(before, after, strict=True)) if k != position
    )
    added = after[position][len(before[position]) :]
    return (
        others_equal
        and after[position][: len(before[position])] == before[position]
        and set(added) == set(rest.partial)
    )


def _axes(layout: MindSporeLayout, grid: DeviceGrid) -> list[str]:
    return _names(layout.aliases(grid))


def _cuts(layout: MindSporeLayout, grid: DeviceGrid) -> tuple[int, ...]:
    return tuple(
        grid.size(tuple(Axis(name) for name in _names([alias]))) for alias in layout.aliases(grid)
    )


def _names(aliases: Sequence[Alias]) -> list[str]:
    names = [alias if isinstance(alias, tuple) else (alias,) for alias in aliases]
    return [name for dim_names in names for name in dim_names if name != "None"]
