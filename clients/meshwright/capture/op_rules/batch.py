"""The rule of an op whose samples are independent: the dims of the symbol `batch` are sharded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from meshwright.schema import ShardingRule, Tensor
from meshwright.schema.sizes import Size, symbols_in

BATCH = "batch"


def batch_rules(inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> Iterator[ShardingRule]:
    """Rules that shard the batch, the most general first; none where an output has no batch.

    A dim `batch*seq` is sharded as a whole where all tensors have it, else by its samples.
    """
    batches = [_batch_dim(tensor) for tensor in (*inputs, *outputs)]
    if None in batches[len(inputs) :] or set(batches[: len(inputs)]) <= {None}:
        return
    sizes = {
        tensor.shape[dim]
        for tensor, dim in zip((*inputs, *outputs), batches, strict=True)
        if dim is not None
    }
    if len(sizes) == 1:
        yield _rule(inputs, outputs, batches, rest={})
    if len(sizes) > 1 and BATCH in sizes:
        others = sorted(str(size) for size in sizes if size != BATCH)
        rest: dict[Size, str] = {size: f"r{k}!" for k, size in enumerate(others)}
        yield _rule(inputs, outputs, batches, rest=rest)


def _batch_dim(tensor: Tensor) -> int | None:
    """The first dim whose size depends on the batch."""
    dims = [dim for dim, size in enumerate(tensor.shape) if BATCH in symbols_in(size)]
    return dims[0] if dims else None


def _rule(
    inputs: Sequence[Tensor],
    outputs: Sequence[Tensor],
    batches: Sequence[int | None],
    *,
    rest: Mapping[Size, str],
) -> ShardingRule:
    """The rule with the factor `b`; `rest` are the minor factors of dims that hold more."""
    names = [f"u{k}_" for k in range(len(inputs))] + [f"w{k}_" for k in range(len(outputs))]
    terms = []
    for tensor, name, batch in zip((*inputs, *outputs), names, batches, strict=True):
        dims = [f"{name}{dim}!" for dim in range(len(tensor.shape))]
        if batch is not None:
            minor = rest.get(tensor.shape[batch])
            dims[batch] = "b" if minor is None else f"(b {minor})"
        terms.append(" ".join(dims))
    notation = f"{', '.join(terms[: len(inputs)])} -> {', '.join(terms[len(inputs) :])}"
    return ShardingRule(notation=notation, flops=0)
