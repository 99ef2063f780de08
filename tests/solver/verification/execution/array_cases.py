"""Calls of kinds that reduce, walk, read, write and make; their meanings in torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from tests.solver.verification.execution.kernel_cases import (
    Case,
    Torch,
    case,
    positive,
    real,
    whole,
)

T = torch.Tensor

ALONG: list[Case] = [
    case("all", np.ones((2, 4), dtype=np.bool_), dims=[1], keepdim=False),
    case("cumprod", real(3, 4), dim=1, by=lambda x: x.cumprod(1)),
    case("cumprod", np.array([[2.0, 0.0, 3.0, 0.0, 1.0]]), dim=-1, by=lambda x: x.cumprod(-1)),
    case("cummax", real(3, 6), dim=1, by=lambda x: tuple(x.cummax(1))),
    case("cummax", np.array([1.0, 3.0, 3.0, 2.0]), dim=0, by=lambda x: tuple(x.cummax(0))),
    case("cummin", real(3, 6), dim=0, by=lambda x: tuple(x.cummin(0))),
    case("max_with_index", real(3, 4, 2), dim=1, by=lambda x: tuple(x.max(1))),
    case("max_with_index", real(3, 4), dim=-1, by=lambda x: tuple(x.max(-1, keepdim=True))),
    case("max_with_index", real(3, 4), dim=0, index_first=True,
         by=lambda x: tuple(x.max(0))[::-1]),
    case("min_with_index", real(3, 4), dim=1, by=lambda x: tuple(x.min(1))),
    case("min_with_index", real(3, 4), dim=1, index_first=True, by=lambda x: tuple(x.min(1))[::-1]),
    *(
        case("trace", real(*shape), dims=list(dims), offset=offset,
             by=lambda x, d=dims, o=offset: x.diagonal(o, *d).sum(-1))
        for shape, dims, offset in (
            ((4, 4), (0, 1), 0), ((3, 5), (0, 1), 1), ((3, 5), (1, 0), 1), ((2, 4, 3), (1, 2), -1),
            ((4, 2, 3), (2, 0), 0),
        )
    ),
    case("trace", whole(9, 4, 4), by=torch.trace),
    case("l2_loss", real(3, 4), by=lambda x: (x**2).sum() / 2),
    case("square_sum_all", real(3, 4), real(3, 4),
         by=lambda x, y: ((x**2).sum(), (y**2).sum())),
    *(
        case("l2_normalize", real(3, 4, 2), dims=dims, eps=eps,
             by=lambda x, d=dims, e=eps: x / (x**2).sum(d, keepdim=True).clamp(min=e).sqrt())
        for dims, eps in (([1], 1e-12), ([0, 2], 1e-4), ([1], 3.0))
    ),
]  # fmt: skip


def with_statistics(x: T, weight: T, bias: T) -> tuple[T, ...]:
    made = torch.native_layer_norm(x, [4], weight, bias, 1e-5)
    return made[0], made[1].detach(), made[2].detach()


def group_statistics(x: T, weight: T, bias: T) -> tuple[T, ...]:
    made = torch.native_group_norm(x, weight, bias, 2, 6, 5, 3, 1e-5)
    return made[0], made[1].detach(), made[2].detach()


def batch_statistics(x: T, weight: T, bias: T) -> tuple[T, ...]:
    y = F.batch_norm(x, None, None, weight, bias, training=True, eps=1e-5)
    return y, x.mean([0, 2]).detach(), x.var([0, 2], correction=0).detach()


def row_deviation(x: T, weight: T) -> tuple[T, T]:
    spread = torch.rsqrt((x**2).mean(-1, keepdim=True) + 1e-5)
    return F.rms_norm(x, [4], weight, 1e-5), spread.detach()


def softmax_loss(x: T, p: T) -> tuple[T, T]:
    return F.cross_entropy(x, p, reduction="none"), (x.softmax(-1) - p).detach()


NORMALISED: list[Case] = [
    case("layer_norm", real(2, 3, 4), real(4), real(4), dims=1, eps=1e-5, by=with_statistics),
    case("rms_norm", real(2, 3, 4), real(4), dims=1, eps=1e-5, by=row_deviation),
    case("batch_norm", real(4, 3, 5), real(3), real(3), eps=1e-5, by=batch_statistics),
    case("group_norm", real(2, 6, 5), real(6), real(6), groups=3, eps=1e-5, by=group_statistics),
    case("softmax_cross_entropy", real(3, 5), positive(3, 5), by=softmax_loss),
    case("softmax_cross_entropy", real(2, 3, 5), positive(2, 3, 5),
         by=lambda x, p: -(p * x.log_softmax(-1)).sum(-1)),
    *(
        case("kl_div", real(3, 4), positive(3, 4), reduction=reduction,
             by=lambda x, p, r=reduction: F.kl_div(x, p, reduction=r))
        for reduction in ("batchmean", "sum", "none")
    ),
    case("kl_div", real(3, 4), positive(3, 4), by=lambda x, p: (p * (p.log() - x)).mean()),
    case("kl_div", real(3, 4), real(3, 4), reduction="sum", log_target=True,
         by=lambda x, p: F.kl_div(x, p, reduction="sum", log_target=True)),
]  # fmt: skip

POINTS = np.array([[0, 1], [2, 3], [3, 0]])


def rows_reduced(how: str) -> Torch:
    def run(x: T, index: T, updates: T) -> T:
        spread = index.reshape(-1)[:, None].expand(-1, x.shape[1])
        return x.scatter_reduce(0, spread, updates.reshape(-1, x.shape[1]), how)

    return run


def put(index_dims: int, *, sign: float | None = None) -> Torch:
    """index_put by points: replaces, or adds with a sign."""

    def run(x: T, index: T, updates: T) -> T:
        place = tuple(index[..., d] for d in range(index_dims))
        if sign is None:
            return x.index_put(place, updates)
        return x.index_put(place, sign * updates, accumulate=True)

    return run


def row_by_row(combine: Any) -> Torch:
    """Updates one after the other, for what torch does not have."""

    def run(x: T, index: T, updates: T) -> T:
        rows = list(x)
        for number, update in zip(
            index.reshape(-1), updates.reshape(-1, *x.shape[1:]), strict=True
        ):
            rows[number] = combine(rows[number], update)
        return torch.stack(rows)

    return run


def segments(how: str, count: int, empty: float) -> Torch:
    def run(x: T, numbers: T) -> T:
        spread = numbers.reshape(-1)[:, None].expand(-1, x.shape[-1])
        start = torch.full((count, x.shape[-1]), empty, dtype=x.dtype)
        rows = x.reshape(-1, x.shape[-1])
        if how == "sum":
            return start.scatter_add(0, spread, rows)
        return start.scatter_reduce(0, spread, rows, how)

    return run


def taken_in_batch(x: T, index: T) -> T:
    return torch.stack([own[number] for own, number in zip(x, index, strict=True)])


LIMIT = float(np.finfo(np.float64).max)

BY_NUMBER: list[Case] = [
    case("index_select", real(2, 5, 3), whole(5, 2, 4), dim=1, batch_dims=1, by=taken_in_batch),
    case("index_select", real(2, 3, 5), whole(5, 2, 4), dim=2, batch_dims=1,
         by=lambda x, i: torch.stack([own[:, n] for own, n in zip(x, i, strict=True)])),
    case("index_select", real(5, 3), whole(5, 2, 4), dim=0, by=lambda x, i: x[i]),
    case("gather", real(4, 5), whole(4, 3, 2), dim=0),
    case("gather_nd", real(4, 5), POINTS, by=lambda x, i: x[i[:, 0], i[:, 1]]),
    case("gather_nd", real(4, 5, 2), whole(4, 2, 3, 2), by=lambda x, i: x[i[..., 0], i[..., 1]]),
    case("gather_nd", real(4, 5), whole(4, 3, 1), by=lambda x, i: x[i[:, 0]]),
    case("index", real(4, 5, 3), whole(4, 6), whole(3, 6), dims=[0, 2],
         by=lambda x, i, j: x[i, :, j]),
    case("index", real(4, 5, 3), whole(5, 2, 1), whole(3, 6), dims=[1, 2],
         by=lambda x, i, j: x[:, i, j]),
    *(
        case("scatter_rows", real(4, 3), np.array([[2, 0], [1, 3]]), positive(2, 2, 3), reduce=how,
             by=row_by_row(combine))
        for how, combine in (
            ("update", lambda _, u: u), ("sub", torch.sub), ("div", torch.div), ("mul", torch.mul),
        )
    ),
    case("scatter_rows", real(4, 3), np.array([2, 0, 2]), real(3, 3), reduce="add",
         by=lambda x, i, u: x.index_add(0, i, u)),
    *(
        case("scatter_rows", real(4, 3), np.array([2, 0, 2]), real(3, 3), reduce=how,
             by=rows_reduced(named))
        for how, named in (("max", "amax"), ("min", "amin"))
    ),
    case("scatter_rows", real(4, 3), np.array([2, 0, 2]), positive(3, 3), reduce="mul",
         by=rows_reduced("prod")),
    case("scatter_rows", real(4, 3), np.array([2, 0, 2]), positive(3, 3), reduce="div",
         by=row_by_row(torch.div)),
    case("scatter_nd", real(4, 5), POINTS, real(3), reduce="update", by=put(2)),
    case("scatter_nd", real(4, 5, 2), POINTS, real(3, 2), reduce="update", by=put(2)),
    case("scatter_nd", real(4, 5), whole(4, 6, 1), real(6, 5), reduce="add", by=put(1, sign=1)),
    case("scatter_nd", real(4, 5), whole(4, 6, 2), real(6), reduce="sub", by=put(2, sign=-1)),
    *(
        case("scatter_nd", real(4, 3), np.array([[2], [0], [2]]), positive(3, 3), reduce=how,
             by=lambda x, i, u, r=run: r(x, i[:, 0], u))
        for how, run in (
            ("max", rows_reduced("amax")), ("min", rows_reduced("amin")),
            ("mul", rows_reduced("prod")), ("div", row_by_row(torch.div)),
        )
    ),
    case("index_add", real(4, 5), np.array([1, 3, 1]), real(4, 3), dim=1, alpha=2,
         by=lambda x, i, u: x.index_add(1, i, u, alpha=2)),
    case("index_add", real(4, 5), real(2, 5), dim=0, indices=[3, 0], alpha=-1,
         by=lambda x, u: x.index_add(0, torch.tensor([3, 0]), u, alpha=-1)),
    case("index_copy", real(4, 5), real(2, 5), dim=0, indices=[3, 0],
         by=lambda x, u: x.index_copy(0, torch.tensor([3, 0]), u)),
    case("index_copy", real(4, 5), np.array([4, 2]), real(4, 2), dim=1,
         by=lambda x, i, u: x.index_copy(1, i, u)),
    case("unsorted_segment_sum", real(6, 2), np.array([0, 2, 2, 4, 0, 2]), shapes=((5, 2),),
         by=segments("sum", 5, 0.0)),
    case("unsorted_segment_sum", real(2, 3, 2), whole(4, 2, 3), by=segments("sum", 4, 0.0)),
    case("unsorted_segment_sum", whole(9, 6, 2), np.array([0, 2, 2, 1, 0, 2]),
         by=segments("sum", 3, 0)),
    case("unsorted_segment_max", real(6, 2), np.array([0, 2, 2, 3, 0, 2]),
         by=segments("amax", 4, -LIMIT)),
    case("unsorted_segment_min", real(6, 2), np.array([0, 2, 2, 3, 0, 2]),
         by=segments("amin", 4, LIMIT)),
    case("unsorted_segment_prod", real(6, 2), np.array([0, 2, 2, 3, 0, 2]),
         by=segments("prod", 4, 1.0)),
    case("one_hot", whole(4, 2, 3), np.array(2.5), np.array(-1.0), dim=1,
         by=lambda x, yes, no: torch.where(
             F.one_hot(x, 4).movedim(-1, 1) == 1, yes.detach(), no.detach())),
    case("one_hot", whole(4, 5), dim=0, by=lambda x: F.one_hot(x, 4).T),
    case("unique", np.array([5, 2, 5, 7, 2]),
         by=lambda _: (torch.tensor([5, 2, 7]), torch.tensor([0, 1, 0, 2, 1]))),
    case("unique", np.array([5, 2, 5, 7, 2]),
         by=lambda _: (torch.tensor([5, 2, 7, 0]), torch.tensor([0, 1, 0, 2, 1]))),
    case("candidate_sampler", whole(9, 3, 2), classes=10,
         by=lambda _: (torch.arange(5), torch.full((3, 2), 0.5, dtype=torch.float64),
                       torch.full((5,), 0.5, dtype=torch.float64))),
]  # fmt: skip

REPEATED: list[Case] = [
    case("tile", real(2, 3), shapes=((4, 9),), by=lambda x: x.tile(2, 3)),
    case("tile", real(3), by=lambda x: x.tile(2, 2)),
    case("repeat_interleave", real(2, 3), dim=1, by=lambda x: x.repeat_interleave(3, 1)),
    case("repeat_interleave", real(2, 3), by=lambda x: x.repeat_interleave(2)),
    case("repeat_interleave", real(2, 3), np.array([1, 0, 4]), dim=1,
         by=lambda x, n: x.repeat_interleave(n, 1)),
    case("repeat_interleave", real(3), np.array([2, 1, 2]),
         by=lambda x, n: x.repeat_interleave(n)),
    case("identity", real(2, 3), by=lambda x: x.clone()),
    case("identity", real(4, 3), real(4), by=lambda x, y: (x.clone(), y.clone())),
    case("identity", real(4, 3), real(2), by=lambda x, y: (x.clone(), y.clone())),
    case("linspace", start=1.0, end=3.0, by=lambda: torch.linspace(1, 3, 7, dtype=torch.float64)),
    case("linspace", np.array(2.0), np.array(-1.0),
         by=lambda *_: torch.linspace(2, -1, 5, dtype=torch.float64)),
]  # fmt: skip


CASES = [*ALONG, *NORMALISED, *BY_NUMBER, *REPEATED]
