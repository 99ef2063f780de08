"""Rules of ops that read or write at places that another tensor names.

A dim that is read by number works like the rows of an embedding: a device reads zeros for numbers
outside of its part, which gives a partial sum. A dim that is written by number needs no
communication: a device writes the elements that fall into its part. The numbers and the written
elements are whole on every device of such an axis, so their gradient is partial.
"""

from __future__ import annotations

from math import prod

from meshwright_solver.rules.op_knowledge import Builder, Known, RuleInputs, known, names


def _reads(notation: str, sparse: tuple[int, ...] = (), count: int = 2) -> Known:
    return known(
        notation,
        "memory",
        linear=((0,),),
        saves_inputs=tuple(range(1, count)),
        flops=0,
        sparse_inputs=sparse,
    )


def gather(ports: RuleInputs) -> Known:
    """Along attrs `dim` by an index of the output's shape; the other dims match.

    An index that is shorter in another dim matches the first places of that dim.
    """
    rank = len(ports.inputs[0])
    dim = int(ports.attrs.get("dim", -1)) % rank
    pairs = zip(*ports.inputs[:2], strict=True)
    same = [i != dim and a == b for i, (a, b) in enumerate(pairs)]
    input_term = " ".join(
        f"d{i}" if same[i] else "v" if i == dim else f"u{i}!" for i in range(rank)
    )
    taken = " ".join(f"d{i}" if same[i] else f"k{i}" for i in range(rank))
    return _reads(f"{input_term}, {taken} -> {taken}", sparse=(0,))


def index_select(ports: RuleInputs) -> Known:
    """Rows of dim attrs `dim` of the first input by the second; attrs `batch_dims` lead both."""
    rank = len(ports.inputs[0])
    dim = int(ports.attrs.get("dim", 0)) % rank
    batch = int(ports.attrs.get("batch_dims", 0))
    if not 0 <= batch <= min(dim, len(ports.inputs[1])):
        raise ValueError(f"{batch} leading dims in common, the indexed dim is {dim}")
    factors = names("d", rank)
    index = [*factors[:batch], *names("k", len(ports.inputs[1]) - batch)]
    out = " ".join([*factors[:dim], *index[batch:], *factors[dim + 1 :]])
    return _reads(f"{' '.join(factors)}, {' '.join(index)} -> {out}", sparse=(0,))


def index(ports: RuleInputs) -> Known:
    """Attrs `dims` by one index tensor each, broadcast among themselves.

    The index dims stand where the dims were, or in front where those are not adjacent. An index as
    long as the dims it reads may be a mask and is kept whole.
    """
    dims = [int(d) for d in ports.attrs["dims"]]
    x, indices = ports.inputs[0], ports.inputs[1:]
    rank = max(len(shape) for shape in indices)
    factors, taken = names("d", len(x)), names("k", rank)
    first = dims[0] if dims == list(range(dims[0], dims[0] + len(dims))) else 0
    index_shape = ports.outputs[0][first : first + rank]
    maybe_mask = any(
        shape == tuple(x[dim : dim + len(shape)]) for dim, shape in zip(dims, indices, strict=True)
    )
    mark = "!" if maybe_mask else ""
    terms = [
        " ".join(
            "1" if size == 1 and full != 1 else f"{name}{mark}"
            for name, size, full in zip(
                taken[rank - len(shape) :], shape, index_shape[rank - len(shape) :], strict=True
            )
        )
        for shape in indices
    ]
    free = [f for d, f in enumerate(factors) if d not in dims]
    input_term = " ".join(f"{f}{mark}" if d in dims else f for d, f in enumerate(factors))
    out = " ".join([*free[:first], *taken, *free[first:]])
    return _reads(f"{', '.join([input_term, *terms])} -> {out}", (0,), len(ports.inputs))


def gather_nd(ports: RuleInputs) -> Known:
    """The last dim of the index names a place in the first dims of the first input."""
    factors, index = names("d", len(ports.inputs[0])), names("k", len(ports.inputs[1]) - 1)
    depth = ports.inputs[1][-1]
    out = " ".join([*index, *factors[depth:]])
    return _reads(f"{' '.join(factors)}, {' '.join(index)} r! -> {out}", sparse=(0,))


def _writes(ports: RuleInputs, notation: str, updates: int) -> Known:
    """Sums and replacements are linear in the old and the new elements together."""
    linear = ports.attrs.get("reduce", "update") in ("update", "add", "sub")
    has_updates = updates < len(ports.inputs)
    return known(
        notation,
        "memory",
        linear=((0, updates),) if linear and has_updates else (),
        saves_inputs=None if not linear else tuple(range(1, updates)),
        flops=0,
    )


def scatter(ports: RuleInputs) -> Known:
    """Along attrs `dim` by an index with all dims; the updates may be longer than the index."""
    x, index = ports.inputs[:2]
    dim = int(ports.attrs.get("dim", -1)) % len(x)
    rest = ports.inputs[2:]
    same = [
        d != dim and all(shape[d] == size for shape in (index, *rest)) for d, size in enumerate(x)
    ]
    factors = names("d", len(x))
    taken = " ".join(f if same[d] else f"k{d}!" for d, f in enumerate(factors))
    terms = [" ".join(factors), taken]
    for shape in rest:
        terms.append(
            " ".join(
                f if same[d] else f"k{d}!" if shape[d] == index[d] else f"s{d}!"
                for d, f in enumerate(factors)
            )
        )
    reduced = RuleInputs(
        ports.inputs, ports.outputs, {"reduce": ports.attrs.get("reduce", "update")}
    )
    return _writes(reduced, f"{', '.join(terms)} -> {' '.join(factors)}", 2)


def scatter_rows(ports: RuleInputs) -> Known:
    """Whole rows of the first dim by an index of any shape."""
    factors = names("d", len(ports.inputs[0]))
    index = " ".join(f"{k}!" for k in names("k", len(ports.inputs[1])))
    term = " ".join(factors)
    return _writes(ports, f"{term}, {index}, {index} {' '.join(factors[1:])} -> {term}", 2)


def scatter_nd(ports: RuleInputs) -> Known:
    """The last dim of the index names a place in the first dims."""
    factors = names("d", len(ports.inputs[0]))
    index = " ".join(f"{k}!" for k in names("k", len(ports.inputs[1]) - 1))
    depth = ports.inputs[1][-1]
    term = " ".join(factors)
    rest = " ".join(factors[depth:])
    return _writes(ports, f"{term}, {index} r!, {index} {rest} -> {term}", 2)


def index_write(ports: RuleInputs) -> Known:
    """index_add, index_copy: slices of attrs `dim`, numbered by an input or by attrs `indices`."""
    factors = names("d", len(ports.inputs[0]))
    dim = int(ports.attrs.get("dim", 0)) % len(factors)
    written = " ".join("k!" if d == dim else f for d, f in enumerate(factors))
    index = "k!, " if len(ports.inputs) == 3 else ""
    updates = len(ports.inputs) - 1
    linear = RuleInputs(ports.inputs, ports.outputs, {})
    return _writes(linear, f"{' '.join(factors)}, {index}{written} -> {' '.join(factors)}", updates)


def masked_scatter(ports: RuleInputs) -> Known:
    """Rows where a mask is true become the rows of the third input, in order.

    x [b, s, ...], mask [b, s], rows [b, t, ...]: each place of the first dim has rows of its own.
    """
    rest = " ".join(names("d", len(ports.inputs[0]) - 2))
    term = f"b s! {rest}".strip()
    return known(
        f"{term}, b s!, {f'b t! {rest}'.strip()} -> {term}",
        "memory",
        linear=((0, 2),),
        saves_inputs=(1,),
        flops=0,
    )


def segments(mark: str) -> Builder:
    """Combines rows of equal number; sums over a part of the rows are partial."""

    def build(ports: RuleInputs) -> Known:
        lead = len(ports.inputs[1])
        rows = " ".join(f"{f}{mark}" for f in names("i", lead))
        rest = " ".join(names("d", len(ports.inputs[0]) - lead))
        return known(
            f"{rows} {rest}, {rows} -> n {rest}",
            "memory",
            linear=((0,),) if not mark else (),
            saves_inputs=(1,) if not mark else (0, 1),
            flops=prod(ports.inputs[0]),
        )

    return build


def one_hot(ports: RuleInputs) -> Known:
    """Classes at attrs `dim` (the last); further inputs are the on and off values."""
    rank = len(ports.inputs[0])
    dim = int(ports.attrs.get("dim", -1)) % (rank + 1)
    factors = names("d", rank)
    scalars = ", " * (len(ports.inputs) - 1)
    out = " ".join([*factors[:dim], "c", *factors[dim:]])
    return known(f"{' '.join(factors)}{scalars} -> {out}", "memory", saves_inputs=(), flops=0)


INDEXING: dict[str, Builder] = {
    "gather": gather,
    "index_select": index_select,
    "index": index,
    "gather_nd": gather_nd,
    "scatter": scatter,
    "scatter_add": lambda ports: scatter(
        RuleInputs(ports.inputs, ports.outputs, {**ports.attrs, "reduce": "add"})
    ),
    "scatter_rows": scatter_rows,
    "scatter_nd": scatter_nd,
    "index_add": index_write,
    "index_copy": index_write,
    "masked_scatter": masked_scatter,
    "unsorted_segment_sum": segments(""),
    "unsorted_segment_max": segments("!"),
    "unsorted_segment_min": segments("!"),
    "unsorted_segment_prod": segments("!"),
    "one_hot": one_hot,
}
