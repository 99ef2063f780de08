"""Pins that `meshwright plan` takes from a stored plan or from a strategy file of MindSpore."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from meshwright.cli.consoles import notices
from meshwright.cli.stored import plan_of
from meshwright.common.files import read_text
from meshwright.convert import OpName, pins_of_plan, pins_of_strategies, read_strategy_file
from meshwright.schema import Graph, Pin, RequestError, Setup, microbatch_symbols

_EVERY_OP = ("*",)


def imported_pins(
    graph: Graph,
    setup: Setup,
    *,
    from_plan: str | None,
    strategies: Path | None,
    strategy_names: Path | None,
    keep: Sequence[str],
    server: str | None,
) -> tuple[Pin, ...]:
    """The pins of both sources for the ops in `keep`; remarks go to standard error."""
    if from_plan is None and strategies is None and keep:
        raise RequestError("--keep needs --from-plan or --strategies. Name one of them")
    if strategies is None and strategy_names is not None:
        raise RequestError("--strategy-names needs --strategies. Name the strategy file")
    pins: list[Pin] = []
    remarks: list[str] = []
    if from_plan is not None:
        stored = plan_of(server, from_plan)
        imported = pins_of_plan(stored.plan, graph, keep=keep or _EVERY_OP)
        pins += imported.pins
        remarks += imported.remarks
    if strategies is not None:
        imported = pins_of_strategies(
            read_strategy_file(strategies),
            graph,
            names=None if strategy_names is None else _names_of(strategy_names),
            keep=keep or _EVERY_OP,
            symbols=microbatch_symbols(graph, setup, 1),
        )
        pins += imported.pins
        remarks += imported.remarks
    for remark in remarks:
        notices().print(remark, markup=False, soft_wrap=True)
    return tuple(pins)


def _names_of(path: Path) -> dict[str, OpName]:
    """Ops by operator: `{"Default/fc1-Dense/MatMul-op0": "fc1"}`, or an object for each op."""
    try:
        content: dict[str, Any] = json.loads(read_text(path))
        return {
            operator: OpName.model_validate({"op": name} if isinstance(name, str) else name)
            for operator, name in content.items()
        }
    except (ValueError, AttributeError) as failure:
        raise RequestError(
            f"--strategy-names: {path} is not a JSON object of operators and ops ({failure}). "
            'Write {"operator": "op"} or {"operator": {"op": "op", "transposed": [1]}}'
        ) from None
