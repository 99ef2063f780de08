"""Rules of ops that read or write at places that another tensor names.

A dim that is read by number is like the rows of an embedding: a device finds what its own part has
and zeros elsewhere, which leaves a partial sum. One that is written by number needs no
communication at all: a device writes what falls into its part. The numbers themselves, and what is
written, are whole on every device of such an axis; their gradient is then partial.
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
    """Along attrs dim by an index of the output's shape; the other dims go together.

    Where the index is shorter in another dim it goes with the first places of it.
    """
    rank = len(ports.inputs[0])
    dim = int(ports.attrs.get("dim", -1)) % rank
    pairs = zip(*ports.inputs[:2], strict=True)
    same = [i != dim and a == b for i, (a, b) in enumerate(pairs)]
    given = " ".join(f"d{i}" if same[i] else "v" if i == dim else f"u{i}!" for i in range(rank))
    taken = " ".join(f"d{i}" if same[i] else f"k{i}" for i in range(rank))
    return _reads(f"{given}, {taken} -> {taken}", sparse=(0,))


def index_select(ports: RuleInputs) -> Known:
    """Rows attrs dim of the first input by the second; attrs batch_dims lead both."""
    rank = len(ports.inputs[0])
    dim = int(ports.attrs.get("dim", 0)) % rank
    batch = int(ports.attrs.get("batch_dims", 0))
    if not 0 <= batch <= min(dim, len(ports.inputs[1])):
        raise ValueError(f"{batch} leading dims in common, the indexed dim is {dim}")
    own = names("d", rank)
    index = [*own[:batch], *names("k", len(ports.inputs[1]) - batch)]
    out = " ".join([*own[:dim], *index[batch:], *own[dim + 1 :]])
    return _reads(f"{' '.join(own)}, {' '.join(index)} -> {out}", sparse=(0,))


def index(ports: RuleInputs) -> Known:
    """Attrs dims by one index tensor each, broadcast among themselves.

    The index dims stand where the dims were, or in front where those do not lie side by side. An
    index as long as what it reads may be a mask and is kept whole.
    """
    dims = [int(d) for d in ports.attrs["dims"]]
    x, indices = ports.inputs[0], ports.inputs[1:]
    rank = max(len(shape) for shape in indices)
    own, taken = names("d", len(x)), names("k", rank)
    first = dims[0] if dims == list(range(dims[0], dims[0] + len(dims))) else 0
    made = ports.outputs[0][first : first + rank]
    maybe_mask = any(
        shape == tuple(x[dim : dim + len(shape)]) for dim, shape in zip(dims, indices, strict=True)
    )
    mark = "!" if maybe_mask else ""
    terms = [
        " ".join(
            "1" if size == 1 and full != 1 else f"{name}{mark}"
            for name, size, full in zip(
                taken[rank - len(shape) :], shape, made[rank - len(shape) :], strict=True
            )
        )
        for shape in indices
    ]
    left = [f for d, f in enumerate(own) if d not in dims]
    given = " ".join(f"{f}{mark}" if d in dims else f for d, f in enumerate(own))
    out = " ".join([*left[:first], *taken, *left[first:]])
    return _reads(f"{', '.join([given, *terms])} -> {out}", (0,), len(ports.inputs))


def gather_nd(ports: RuleInputs) -> Known:
    """The last dim of the index names a place in the first dims of the first input."""
    own, index = names("d", len(ports.inputs[0])), names("k", len(ports.inputs[1]) - 1)
    depth = ports.inputs[1][-1]
    out = " ".join([*index, *own[depth:]])
    return _reads(f"{' '.join(own)}, {' '.join(index)} r! -> {out}", sparse=(0,))


def _writes(ports: RuleInputs, notation: str, updates: int) -> Known:
    """Sums and replacements are linear in what is there and what comes, taken together."""
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
    """Along attrs dim by an index that has all dims; what is written may be longer than it."""
    x, index = ports.inputs[:2]
    dim = int(ports.attrs.get("dim", -1)) % len(x)
    rest = ports.inputs[2:]
    same = [
        d != dim and all(shape[d] == size for shape in (index, *rest)) for d, size in enumerate(x)
    ]
    own = names("d", len(x))
    taken = " ".join(f if same[d] else f"k{d}!" for d, f in enumerate(own))
    terms = [" ".join(own), taken]
    for shape in rest:
        terms.append(
            " ".join(
                f if same[d] else f"k{d}!" if shape[d] == index[d] else f"s{d}!"
                for d, f in enumerate(own)
            )
        )
    reduced = RuleInputs(
        ports.inputs, ports.outputs, {"reduce": ports.attrs.get("reduce", "update")}
    )
    return _writes(reduced, f"{', '.join(terms)} -> {' '.join(own)}", 2)


def scatter_rows(ports: RuleInputs) -> Known:
    """Whole rows of the first dim by an index of any shape."""
    own = names("d", len(ports.inputs[0]))
    index = " ".join(f"{k}!" for k in names("k", len(ports.inputs[1])))
    term = " ".join(own)
    return _writes(ports, f"{term}, {index}, {index} {' '.join(own[1:])} -> {term}", 2)


def scatter_nd(ports: RuleInputs) -> Known:
    """The last dim of the index names a place in the first dims."""
    own = names("d", len(ports.inputs[0]))
    index = " ".join(f"{k}!" for k in names("k", len(ports.inputs[1]) - 1))
    depth = ports.inputs[1][-1]
    term = " ".join(own)
    rest = " ".join(own[depth:])
    return _writes(ports, f"{term}, {index} r!, {index} {rest} -> {term}", 2)


def index_write(ports: RuleInputs) -> Known:
    """index_add, index_copy: slices of attrs dim, numbered by an input or by attrs indices."""
    own = names("d", len(ports.inputs[0]))
    dim = int(ports.attrs.get("dim", 0)) % len(own)
    written = " ".join("k!" if d == dim else f for d, f in enumerate(own))
    index = "k!, " if len(ports.inputs) == 3 else ""
    updates = len(ports.inputs) - 1
    linear = RuleInputs(ports.inputs, ports.outputs, {})
    return _writes(linear, f"{' '.join(own)}, {index}{written} -> {' '.join(own)}", updates)


def segments(mark: str) -> Builder:
    """Rows of equal number together; sums of a part of the rows are partial."""

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
    """Classes at attrs dim (the last); further inputs are the numbers for yes and no."""
    rank = len(ports.inputs[0])
    dim = int(ports.attrs.get("dim", -1)) % (rank + 1)
    own = names("d", rank)
    scalars = ", " * (len(ports.inputs) - 1)
    out = " ".join([*own[:dim], "c", *own[dim:]])
    return known(f"{' '.join(own)}{scalars} -> {out}", "memory", saves_inputs=(), flops=0)


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
    "unsorted_segment_sum": segments(""),
    "unsorted_segment_max": segments("!"),
    "unsorted_segment_min": segments("!"),
    "unsorted_segment_prod": segments("!"),
    "one_hot": one_hot,
}
