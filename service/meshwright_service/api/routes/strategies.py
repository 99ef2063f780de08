"""Strategies: what a plan does with every op, and what that costs."""

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
    """A tensor as an op reads or makes it. axes: of the mesh, that shard every dim of `root`, which
    it is a view of; none where any device can make or load any part. partial: axes over which its
    parts are still to be added up."""

    tensor: str
    root: str | None = None
    layout: str | None = None
    axes: tuple[tuple[str, ...], ...] | None = None
    partial: tuple[str, ...]


class OpCost(BaseModel):
    """Over one step, on one device. communication_ns: what the op moves by itself, and the
    redistributions on its inputs; those that all readers of a tensor share are of the op that makes
    it, those of a parameter of its first reader. saved_bytes: for the backward pass of one
    microbatch. parameter_bytes: of values, gradients and optimizer states."""

    compute_ns: float
    communication_ns: float
    own_communication_ns: float
    redistribution_ns: float
    saved_bytes: int
    parameter_bytes: int


class OpStrategyEntry(BaseModel):
    """What a plan does with an op. strategy: the axes on every factor of its rule."""

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
    """A page of ops, in the plan's order. ops: how many match in all."""

    plan: str
    ops: int
    strategies: tuple[OpStrategyEntry, ...]
    next_page_token: str | None = None


ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {"model": StrategyList},
    304: etags.NOT_MODIFIED,
}


@router.get("/strategies", responses=ANSWERS, summary="List what a plan does with every op")
def get_strategies(
    request: Request,
    service: Service,
    by: Reader,
    plan: str,
    page: Paging,
    op: Glob = None,
    block: Glob = None,
) -> Response:
    """Strategies, layouts and costs of ops. op: a glob of their names. block: of module paths; all
    within these."""
    inspected = service.inspected.of(by.tenant, plan)
    wanted = matching(inspected.shares, op, block)
    found = page_of(wanted, page)
    made = StrategyList(
        plan=plan,
        ops=len(wanted),
        strategies=tuple(map(_strategy, found.items)),
        next_page_token=found.next_token,
    )
    return etags.recent_text(request, made.model_dump_json(exclude_none=True))


def matching(shares: tuple[OpShare, ...], op: str | None, block: str | None) -> tuple[OpShare, ...]:
    """Those whose name matches a glob, in modules that match another or within these."""
    kept = range(len(shares))
    if op is not None:
        own = {*Names([share.own.op for share in shares]).matching(op)}
        kept = [k for k in kept if k in own]  # type: ignore[assignment]  # as good as a range
    if block is not None:
        modules = [share.module for share in shares]
        names = Names(modules)
        own = {*names.matching(block), *names.matching(f"{block}.*")}
        kept = [k for k in kept if k in own]  # type: ignore[assignment]  # as above
    return tuple(shares[k] for k in kept)


def _strategy(share: OpShare) -> OpStrategyEntry:
    own = share.own
    moved_ns = share.communication_ns - own.communication_ns
    return OpStrategyEntry(
        op=own.op,
        kind=own.kind,
        module=share.module,
        rule=own.rule,
        stage=share.stage,
        strategy={factor: axes for factor, axes in own.strategy.items() if axes},
        partial=own.partial,
        followers=own.followers,
        inputs=tuple(map(_tensor, share.inputs)),
        outputs=tuple(map(_tensor, share.outputs)),
        cost=OpCost(
            compute_ns=own.compute_ns,
            communication_ns=share.communication_ns,
            own_communication_ns=own.communication_ns,
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
