"""How inputs are loaded: as ops that copy what each device loads, where the setup says the layout.

    x -> load x -> x (loaded) -> the readers of x

With `any` each device loads the parts that it needs, and nothing is to be said. With `full_batch`
it loads all, of which every part is a slice for nothing: the same. Otherwise a read in another
layout than the loaded one is a redistribution, and priced as one; the copy costs what writing the
loaded part to memory takes.
"""

from __future__ import annotations

from collections.abc import Mapping

from meshwright.schema import Graph, Op, Pin, Setup, SetupError, Tensor

COPY = "cast"  # to its own dtype: a copy that is no view
LOAD = "load "  # what the names of loading ops begin with


def with_loading(graph: Graph, setup: Setup) -> Graph:
    """The graph with its inputs loaded as the setup says; it keeps the id of the graph as given.

    Raises SetupError where the setup has cuts for another number of inputs.
    """
    wanted = loading_pins(graph, setup)
    if not wanted:
        return graph
    taken = {tensor.name for tensor in graph.tensors} | {op.name for op in graph.ops}
    names: dict[str, str] = {}
    for pin in wanted.values():
        name = pin.op.removeprefix(LOAD)
        names[name] = _fresh(f"{name} (loaded)", taken)
    roles = {tensor.name: tensor for tensor in graph.tensors}
    loads = [
        Op(
            name=LOAD + name,
            kind=COPY,
            inputs=(name,),
            outputs=(own,),
            attrs={"dtype": roles[name].dtype},
        )
        for name, own in names.items()
    ]
    made = [Tensor(name=o, shape=roles[n].shape, dtype=roles[n].dtype) for n, o in names.items()]
    ops = [
        op.model_copy(update={"inputs": tuple([names.get(name, name) for name in op.inputs])})
        if not names.keys().isdisjoint(op.inputs)
        else op
        for op in graph.ops
    ]
    found = graph.model_copy(update={"tensors": (*graph.tensors, *made), "ops": (*loads, *ops)})
    found.__dict__["_id"] = graph.id
    return found


def loading_pins(graph: Graph, setup: Setup) -> Mapping[str, Pin]:
    """Name of a loading op -> what it is pinned to; inputs loaded as they are needed have none.

    Raises SetupError where the setup has cuts for another number of inputs.
    """
    inputs = [tensor.name for tensor in graph.tensors if tensor.role in ("input", "label")]
    said = setup.dataset
    if said == "data_parallel":
        return {LOAD + name: Pin(op=LOAD + name, data_parallel=True) for name in inputs}
    if isinstance(said, str):
        return {}
    if len(said) != len(inputs):
        raise SetupError(
            f"the dataset has cuts for {len(said)} inputs, the graph has {len(inputs)}: "
            f"{', '.join(inputs[:8])}",
            pointer="/dataset",
        )
    return {
        LOAD + name: Pin(op=LOAD + name, outputs=(cuts,))
        for name, cuts in zip(inputs, said, strict=True)
        if cuts is not None
    }


def _fresh(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "'"
    taken.add(name)
    return name
