"""Rules of ops where MindSpore's operator is narrower than our kind.

With them no plan asks for what MindSpore cannot do: partial sums that pass through an op (it
reduces them right behind the op that makes them), a softmax or a loss over classes that are cut, a
convolution with halos, parts inside a dim that a reshape has put together.
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
    """Inputs are spread over the result's dims from the last on; saves: None for all of them."""
    shape = call.out.shape
    names = _names("d", len(shape))
    terms = []
    for value in (own for own in call.inputs if own is not None):
        behind = len(shape) - value.rank
        terms.append(
            " ".join(
                "1" if size == 1 != shape[behind + dim] else names[behind + dim]
                for dim, size in enumerate(value.shape)
            )
        )
    kept = None if saves is None else tuple(own for own in saves if own < len(terms))
    return ShardingRule(notation=f"{', '.join(terms)} -> {' '.join(names)}", saves_inputs=kept)


def reduction(call: NodeCall) -> ShardingRule:
    """A sum or mean; where dims are kept they are 1."""
    names = _names("d", call.x.rank)
    gone = {dim % call.x.rank for dim in call.list_of("axis", 1) or range(call.x.rank)}
    keeps = call.out.rank == call.x.rank
    made = [
        "1" if dim in gone else own for dim, own in enumerate(names) if keeps or dim not in gone
    ]
    return ShardingRule(notation=f"{' '.join(names)} -> {' '.join(made)}", saves_inputs=())


def softmax(call: NodeCall) -> ShardingRule:
    dims = {own % call.x.rank for own in call.list_of("axis", 1) or [-1]}
    names = _names("d", call.x.rank)
    term = " ".join(f"{own}!" if place in dims else own for place, own in enumerate(names))
    return ShardingRule(notation=f"{term} -> {term}", saves_inputs=(), saves_outputs=(0,))


def layer_norm(call: NodeCall) -> ShardingRule:
    count = call.value(1).rank
    inner = " ".join(f"{own}!" for own in _names("h", count))
    term = " ".join([*_names("b", call.x.rank - count), inner])
    return ShardingRule(notation=f"{term}, {inner}, {inner} -> {term}", saves_inputs=(0,))


def cross_entropy(call: NodeCall) -> ShardingRule:
    del call
    return ShardingRule(notation="b v!, b v! -> b", saves_inputs=(0, 1))


def conv(call: NodeCall) -> ShardingRule | None:
    if int(call.attrs.get("group", 1)) > 1:
        return None
    rank = call.x.rank - 2
    places, window, made = (
        " ".join(f"{own}!" for own in _names(letter, rank)) for letter in ("x", "w", "y")
    )
    # twice a window for every place that is made; the places of the input are no factor of it
    points = "*".join(["n", "c", "o", *_names("y", rank), *_names("w", rank)])
    return ShardingRule(notation=f"n c {places}, o c {window} -> n o {made}", flops=f"2*{points}")


def matmul(call: NodeCall, merged: Sizes) -> ShardingRule | None:
    """merged: what the reduced dim of the left matrix was put together from, if it was."""
    left, right = call.value(0), call.value(1)
    if len(merged) < 2 or left.rank != 2 or right.rank != 2 or call.scalar(2):
        return None
    inner = " ".join(["k0", *(f"{own}!" for own in _names("k", len(merged))[1:])])
    weight = f"n ({inner})" if call.scalar(3) else f"({inner}) n"
    sizes = {f"k{place}": size for place, size in enumerate(merged) if place}
    return ShardingRule(notation=f"m ({inner}), {weight} -> m n", sizes=sizes)


def merged_dim(before: Value, made: Value) -> tuple[int, ...]:
    """The sizes that a reshape puts together into its last dim, outer first; one where none."""
    wanted, found = made.shape[-1] if made.shape else 1, 1
    sizes: list[int] = []
    for size in reversed(before.shape):
        if found == wanted:
            break
        found *= size
        sizes.insert(0, size)
    return tuple(own for own in sizes if own > 1) if found == wanted else ()


_KEEPS_NOTHING = ("Add", "AddExt", "Sub", "SubExt", "BiasAdd", "Neg", "Cast")
_KEEPS_ALL = ("Mul", "Muls", "Div", "RealDiv")
RULES: Mapping[str, Callable[[NodeCall], ShardingRule | None]] = {
    **dict.fromkeys(_KEEPS_NOTHING, lambda call: pointwise(call, ())),
    **dict.fromkeys(_KEEPS_ALL, lambda call: pointwise(call, None)),
    "Select": lambda call: pointwise(call, (0,)),
    "MaskedFill": lambda call: pointwise(call, (1,)),
    **dict.fromkeys(("ReduceSum", "SumExt", "ReduceMean", "MeanExt"), reduction),
    **dict.fromkeys(("Softmax", "LogSoftmax"), softmax),
    "LayerNorm": layer_norm,
    "SoftmaxCrossEntropyWithLogits": cross_entropy,
    "Conv2D": conv,
}
PRODUCTS = frozenset({"MatMul", "MatMulExt"})
