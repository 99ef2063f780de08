"""Models of products of any rule, run: every device computes on its shards as `required` says, and
what they make combines as `made` says, forward and backward."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.solver.devices import Array
from tests.solver.op_bench import Bench, run_forward
from tests.solver.small_graphs import GraphMaker, models

FACTORS = "abcde"


@st.composite
def product_rules(draw: st.DrawFn) -> tuple[str, dict[str, int], list[list[str]], list[str]]:
    """A random product of two or three tensors; neighbours may be merged into one dim."""
    sizes = {f: draw(st.sampled_from([2, 3, 4, 6])) for f in FACTORS[: draw(st.integers(1, 4))]}
    terms = [
        draw(st.lists(st.sampled_from(sorted(sizes)), min_size=1, max_size=3, unique=True))
        for _ in range(draw(st.integers(1, 3)))
    ]
    used = sorted({f for term in terms for f in term})
    out = draw(st.lists(st.sampled_from(used), max_size=3, unique=True))

    def written(term: list[str]) -> str:
        if len(term) == 3 and draw(st.booleans()):
            return f"({term[0]} {term[1]}) {term[2]}"
        return " ".join(term)

    # the first, unmerged, gives all sizes
    first = " ".join(used)
    terms = [used, *terms]
    notation = f"{', '.join([first, *map(written, terms[1:])])} -> {written(out)}"
    return notation, sizes, terms, out


def shape_of(notation_term: str, sizes: dict[str, int]) -> list[int]:
    shape, inside = [], None
    for token in notation_term.replace("(", "( ").replace(")", " )").split():
        if token == "(":
            inside = 1
        elif token == ")":
            shape.append(inside)
            inside = None
        elif inside is not None:
            inside *= sizes[token]
        else:
            shape.append(sizes[token])
    return shape


def product_bench(notation: str, sizes: dict[str, int], mesh: Sequence[int], linear) -> Bench:
    given, made = notation.split("->")
    maker = GraphMaker()
    ins = []
    for k, term in enumerate(given.split(",")):
        shape = shape_of(term, sizes)
        ins.append(maker.op("gelu", [maker.parameter(f"p{k}", *shape)], shape))
    rule = {"notation": notation, "linear": linear}
    out = maker.op("mine", ins, shape_of(made, sizes), "it", rule=rule)
    return Bench(models(maker.graph(out), mesh), "it")


MESHES = st.sampled_from([(2,), (3,), (4,), (2, 2), (2, 3), (4, 2), (2, 2, 2)])


@settings(max_examples=120, deadline=None)
@given(product_rules(), MESHES, st.integers(0, 2**32 - 1))
def test_products_run_on_shards_make_what_the_model_says(case, mesh, seed):
    notation, sizes, terms, _ = case
    rng = np.random.default_rng(seed)
    linear = [[k] for k in range(len(terms))]
    bench = product_bench(notation, sizes, mesh, linear)
    ports, port = bench.op.inputs, bench.op.outputs[0]
    wholes = [bench.whole(own, rng) for own in ports]
    labels = [bench.labels(own) for own in ports]
    made = bench.labels(port)

    def product(arrays: Sequence[Array], to: list[int]) -> Array:
        return np.einsum(*(x for pair in zip(arrays, labels, strict=True) for x in pair), to)

    def pulled(arrays: Sequence[Array], gradient: Array, k: int) -> Array:
        """The gradient of input k: the product of the rest, as large as the input."""
        operands = [gradient, made, np.ones(arrays[k].shape), labels[k]]
        for other, own in enumerate(arrays):
            if other != k:
                operands += [own, labels[other]]
        return np.einsum(*operands, labels[k])

    result = product(wholes, made)
    gradient = bench.whole(port, rng)
    for strategy in bench.strategies(8, rng):
        ins = run_forward(
            bench, strategy, wholes, result, lambda arrays, _: product(arrays, made), rng
        )
        lay = bench.lay(port, bench.made(strategy), gradient=True)
        above = bench.shards(port, gradient, lay, rng)
        for k, own in enumerate(ports):
            below = {d: pulled([x[d] for x in ins], above[d], k) for d in above}
            state = bench.needed(strategy, k)
            bench.check(
                own, below, pulled(wholes, gradient, k), bench.lay(own, state, gradient=True)
            )


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.sampled_from([2, 4, 6]), min_size=1, max_size=3),
    st.lists(st.integers(0, 7), min_size=2, max_size=3),
    MESHES,
    st.integers(0, 2**32 - 1),
)
def test_sums_of_broadcast_inputs_run_on_shards_make_what_the_model_says(shape, flags, mesh, seed):
    rng = np.random.default_rng(seed)
    maker = GraphMaker()
    shapes = [
        [size if k == 0 or not flag >> d & 1 else 1 for d, size in enumerate(shape)]
        for k, flag in enumerate(flags)
    ]
    ins = [maker.op("gelu", [maker.parameter(f"p{k}", *own)], own) for k, own in enumerate(shapes)]
    bench = Bench(models(maker.graph(maker.op("add", ins, shape, "it")), mesh), "it")
    ports, port = bench.op.inputs, bench.op.outputs[0]
    wholes = [bench.whole(own, rng) for own in ports]
    labels, made = [bench.labels(own) for own in ports], bench.labels(port)

    def total(arrays: Sequence[Array], extent: Array) -> Array:
        return sum(
            np.einsum(own, on, np.ones(extent.shape), made, made)
            for own, on in zip(arrays, labels, strict=True)
        )

    result = total(wholes, np.ones(bench.cluster(port).slot_sizes))
    gradient = bench.whole(port, rng)
    for strategy in bench.strategies(10, rng):
        ins_held = run_forward(
            bench, strategy, wholes, result, lambda own, _: total(own, own[0]), rng
        )
        above = bench.shards(
            port, gradient, bench.lay(port, bench.made(strategy), gradient=True), rng
        )
        for k, own in enumerate(ports):
            assert ins_held[k].keys() == above.keys()
            below = {d: np.einsum(above[d], made, labels[k]) for d in above}
            bench.check(
                own,
                below,
                np.einsum(gradient, made, labels[k]),
                bench.lay(own, bench.needed(strategy, k), gradient=True),
            )
