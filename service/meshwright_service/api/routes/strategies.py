"""Strategies: the strategy, the layouts and the cost of every op of a plan."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel

from meshwright.reports.ops import Lying, OpShare
from meshwright.schema.mesh import Axis
from meshwright_service.api import etags
from meshwright_service.api.state import Service
from meshwright_service.auth.principals import Reader
from meshwright_service.store.pagination import Paging, page_of
from meshwright_solver.common.name_globs import Names

router = APIRouter(prefix="/v1/plans/{plan}", tags=["plans"])
Glob = Annotated[str | None, Query(min_length=1, max_length=512)]


class TensorAxes(BaseModel):
    """A tensor as an op reads or makes it.

    root: the tensor that it is a view of. axes: mesh axes that shard each dim of `root`; None if
    any device can make or load any part. partial: mesh axes over which it is a partial sum.
    """

    tensor: str
    root: str | None = None
    layout: str | None = None
    axes: tuple[tuple[str, ...], ...] | None = None
    partial: tuple[str, ...]


class OpCost(BaseModel):
    """The cost of an op on one device over one step.

    communication_ns: its own communication and the redistributions of its inputs. A redistribution
    that all readers of a tensor share counts for the op that makes it, that of a parameter for its
    first reader. saved_bytes: saved for the backward pass of one microbatch. parameter_bytes: of
    values, gradients and optimizer states.
    """

    compute_ns: float
    communication_ns: float
    own_communication_ns: float
    redistribution_ns: float
    saved_bytes: int
    parameter_bytes: int


class OpStrategyEntry(BaseModel):
    """The strategy of an op in a plan. strategy: the mesh axes on every factor of its rule."""

    op: str
    kind: str
    module: str
    rule: str | None = None
    stage: int
    strategy: dict[str, tuple[Axis, ...]]
    partial: dict[Axis, int]
    followers: tuple[Axis, ...]
    inputs: tuple[TensorAxes, ...]
    outputs: tuple[TensorAxes, ...]
    cost: OpCost


class StrategyList(BaseModel):
    """A page of ops, in plan order. ops: the number of all matching ops."""

    plan: str
    ops: int
    strategies: tuple[OpStrategyEntry, ...]
    next_page_token: str | None = None


ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {"model": StrategyList},
    304: etags.NOT_MODIFIED,
}


@router.get("/strategies", responses=ANSWERS, summary="List the strategies of ops")
def get_strategies(
    request: Request,
    service: Service,
    by: Reader,
    plan: str,
    page: Paging,
    op: Glob = None,
    block: Glob = None,
) -> Response:
    """Strategies, layouts and costs of ops. op: a glob on their names. block: a glob on module
    paths, which selects all ops in them."""
    inspected = service.inspected.of(by.tenant, plan)
    wanted = matching(inspected.shares, op, block)
    page_items = page_of(wanted, page)
    answer = StrategyList(
        plan=plan,
        ops=len(wanted),
        strategies=tuple(map(_strategy, page_items.items)),
        next_page_token=page_items.next_token,
    )
    return etags.recent_text(request, answer.model_dump_json(exclude_none=True))


def matching(shares: tuple[OpShare, ...], op: str | None, block: str | None) -> tuple[OpShare, ...]:
    """The ops whose names match a glob, in modules whose paths match another glob."""
    indices = range(len(shares))
    if op is not None:
        matches = {*Names([share.own.op for share in shares]).matching(op)}
        indices = [k for k in indices if k in matches]  # type: ignore[assignment]  # a list in place of the range
    if block is not None:
        modules = [share.module for share in shares]
        names = Names(modules)
        matches = {*names.matching(block), *names.matching(f"{block}.*")}
        indices = [k for k in indices if k in matches]  # type: ignore[assignment]  # as above
    return tuple(shares[k] for k in indices)


def _strategy(share: OpShare) -> OpStrategyEntry:
    op = share.own
    moved_ns = share.communication_ns - op.communication_ns
    return OpStrategyEntry(
        op=op.op,
        kind=op.kind,
        module=share.module,
        rule=op.rule,
        stage=share.stage,
        strategy={factor: axes for factor, axes in op.strategy.items() if axes},
        partial=op.partial,
        followers=op.followers,
        inputs=tuple(map(_tensor, share.inputs)),
        outputs=tuple(map(_tensor, share.outputs)),
        cost=OpCost(
            compute_ns=op.compute_ns,
            communication_ns=share.communication_ns,
            own_communication_ns=op.communication_ns,
            redistribution_ns=moved_ns,
            saved_bytes=share.saved_bytes,
            parameter_bytes=share.parameter_bytes,
        ),
    )


def _tensor(lying: Lying) -> TensorAxes:
    layout = lying.layout
    return TensorAxes(
        tensor=lying.tensor,
        root=lying.root,
        layout=None if layout is None else str(layout),
        axes=lying.axes,
        partial=() if layout is None else tuple(sorted(layout.partial)),
    )
