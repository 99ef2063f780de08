"""A plan as a table of pandas: a row for each op, for notebooks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from meshwright.schema.errors import Unavailable
from meshwright.schema.stage import Stage

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = (
    "stage", "op", "kind", "rule", "strategy", "compute_ns", "communication_ns",
    "redistribution_ns",
)  # fmt: skip


def frame_of_stages(stages: Sequence[Stage]) -> pd.DataFrame:
    """The ops of all stages, in their order. Raises Unavailable without pandas."""
    try:
        import pandas as pd
    except ImportError:
        raise Unavailable(
            "a table of a plan needs pandas. Install it: pip install 'meshwright[pandas]'"
        ) from None
    rows = [row for number, stage in enumerate(stages) for row in _rows(number, stage)]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _rows(number: int, stage: Stage) -> Iterator[tuple[Any, ...]]:
    of_reader: dict[str, float] = {}
    shared: dict[str, float] = {}
    ops = {op.op for op in stage.ops}
    for moved in stage.redistributions:
        is_of_op = moved.op is not None and moved.op in ops
        times, name = (of_reader, moved.op) if is_of_op else (shared, moved.tensor)
        times[str(name)] = times.get(str(name), 0.0) + moved.ns
    for op in stage.ops:
        yield (
            number, op.op, op.kind, op.rule, _strategy_text(op.strategy), op.compute_ns,
            op.communication_ns, of_reader.get(op.op, 0.0),
        )  # fmt: skip
    for tensor, ns in shared.items():
        yield number, tensor, "redistribution", "", "", 0.0, 0.0, ns


def _strategy_text(strategy: Mapping[str, Sequence[str]]) -> str:
    """The factors with their axes, such as `b=gpu0+gpu1, h=gpu2`, as a pin states them."""
    return ", ".join(f"{factor}={'+'.join(axes)}" for factor, axes in strategy.items())
