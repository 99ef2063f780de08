"""Rules of ops whose MindSpore operator is narrower than the canonical kind.

The rules exclude strategies that MindSpore does not support:

- partial sums that pass through an op, because MindSpore reduces them after the producer;
- a softmax or a loss over sharded classes;
- a convolution with halos;
- parts inside a dim that a reshape has merged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from meshwright.capture.node_call import NodeCall
from meshwright.capture.program import Value
from meshwright.schema import ShardingRule

Sizes = Sequence[int]


def _names(letter: str, count: int) -> list[str]:
    return [f"{letter}{place}" for place in range(count)]


def pointwise(call: NodeCall, saves: tuple[int, ...] | None) -> ShardingRule:
    """The rule of a broadcasting op; `saves` are the saved inputs, None for all."""
    shape = call.out.shape
    names = _names("d", len(shape))
    terms = []
    for value in (value for value in call.inputs if value is not None):
        behind = len(shape) - value.rank
        terms.append(
            " ".join(
                "1" if size == 1 != shape[behind + dim] else names[behind + dim]
                for dim, size in enumerate(value.shape)
            )
        )
    saved = None if saves is None else tuple(place for place in saves if place < len(terms))
    return ShardingRule(notation=f"{', '.join(terms)} -> {' '.join(names)}", saves_inputs=saved)


def reduction(call: NodeCall) -> ShardingRule:
    """The rule of a sum or mean; reduced dims that are kept are 1."""
    names = _names("d", call.x.rank)
    gone = {dim % call.x.rank for dim in call.list_of("axis", 1) or range(call.x.rank)}
    keeps = call.out.rank == call.x.rank
    result_names = [
        "1" if dim in gone else name for dim, name in enumerate(names) if keeps or dim not in gone
    ]
    return ShardingRule(notation=f"{' '.join(names)} -> {' '.join(result_names)}", saves_inputs=())


def softmax(call: NodeCall) -> ShardingRule:
    dims = {dim % call.x.rank for dim in call.list_of("axis", 1) or [-1]}
    names = _names("d", call.x.rank)
    term = " ".join(f"{name}!" if place in dims else name for place, name in enumerate(names))
    return ShardingRule(notation=f"{term} -> {term}", saves_inputs=(), saves_outputs=(0,))


def layer_norm(call: NodeCall) -> ShardingRule:
    count = call.value(1).rank
    inner = " ".join(f"{name}!" for name in _names("h", count))
    term = " ".join([*_names("b", call.x.rank - count), inner])
    return ShardingRule(notation=f"{term}, {inner}, {inner} -> {term}", saves_inputs=(0,))


def cross_entropy(call: NodeCall) -> ShardingRule:
    del call
    return ShardingRule(notation="b v!, b v! -> b", saves_inputs=(0, 1))


def conv(call: NodeCall) -> ShardingRule | None:
    if int(call.attrs.get("group", 1)) > 1:
        return None
    rank = call.x.rank - 2
    places, window, outputs = (
        " ".join(f"{name}!" for name in _names(letter, rank)) for letter in ("x", "w", "y")
    )
    # two FLOP per window element and output element; input positions are no factor
    points = "*".join(["n", "c", "o", *_names("y", rank), *_names("w", rank)])
    return ShardingRule(
        notation=f"n c {places}, o c {window} -> n o {outputs}", flops=f"2*{points}"
    )


def matmul(call: NodeCall, merged: Sizes) -> ShardingRule | None:
    """The rule of a matmul whose contracted dim a reshape merged from the sizes `merged`."""
    left, right = call.value(0), call.value(1)
    if len(merged) < 2 or left.rank != 2 or right.rank != 2 or call.scalar(2):
        return None
    inner = " ".join(["k0", *(f"{name}!" for name in _names("k", len(merged))[1:])])
    weight = f"n ({inner})" if call.scalar(3) else f"({inner}) n"
    sizes = {f"k{place}": size for place, size in enumerate(merged) if place}
    return ShardingRule(notation=f"m ({inner}), {weight} -> m n", sizes=sizes)


def merged_dim(before: Value, result: Value) -> tuple[int, ...]:
    """The sizes that a reshape merges into its last dim, the outer first; () without a merge."""
    target, product = result.shape[-1] if result.shape else 1, 1
    sizes: list[int] = []
    for size in reversed(before.shape):
        if product == target:
            break
        product *= size
        sizes.insert(0, size)
    return tuple(size for size in sizes if size > 1) if product == target else ()


_SAVES_NOTHING = ("Add", "AddExt", "Sub", "SubExt", "BiasAdd", "Neg", "Cast")
_SAVES_ALL = ("Mul", "Muls", "Div", "RealDiv")
RULES: Mapping[str, Callable[[NodeCall], ShardingRule | None]] = {
    **dict.fromkeys(_SAVES_NOTHING, lambda call: pointwise(call, ())),
    **dict.fromkeys(_SAVES_ALL, lambda call: pointwise(call, None)),
    "Select": lambda call: pointwise(call, (0,)),
    "MaskedFill": lambda call: pointwise(call, (1,)),
    **dict.fromkeys(("ReduceSum", "SumExt", "ReduceMean", "MeanExt"), reduction),
    **dict.fromkeys(("Softmax", "LogSoftmax"), softmax),
    "LayerNorm": layer_norm,
    "SoftmaxCrossEntropyWithLogits": cross_entropy,
    "Conv2D": conv,
}
PRODUCTS = frozenset({"MatMul", "MatMulExt"})
