"""Loading ops: copies of the inputs, pinned to the layout in which the setup loads them.

    x -> load x -> x (loaded) -> the readers of x

With `any` each device loads the parts that it needs; with `full_batch` it loads all and slices for
nothing. Both need no loading op. Otherwise a read in another layout than the loaded one is a
redistribution. The copy costs the time to write the loaded part to memory.
"""

from __future__ import annotations

from collections.abc import Mapping

from meshwright.schema import Graph, Op, Pin, Setup, SetupError, Tensor

COPY = "cast"  # to its own dtype: a copy that is no view
LOAD = "load "  # the prefix of the names of loading ops


def with_loading(graph: Graph, setup: Setup) -> Graph:
    """The graph with its loading ops; it keeps the id of `graph`.

    Raises SetupError where the setup has cuts for another number of inputs.
    """
    pins = loading_pins(graph, setup)
    if not pins:
        return graph
    taken = {tensor.name for tensor in graph.tensors} | {op.name for op in graph.ops}
    names: dict[str, str] = {}
    for pin in pins.values():
        name = pin.op.removeprefix(LOAD)
        names[name] = _unused_name(f"{name} (loaded)", taken)
    roles = {tensor.name: tensor for tensor in graph.tensors}
    loads = [
        Op(
            name=LOAD + name,
            kind=COPY,
            inputs=(name,),
            outputs=(loaded_name,),
            attrs={"dtype": roles[name].dtype},
        )
        for name, loaded_name in names.items()
    ]
    tensors = [
        Tensor(name=loaded_name, shape=roles[name].shape, dtype=roles[name].dtype)
        for name, loaded_name in names.items()
    ]
    ops = [
        op.model_copy(update={"inputs": tuple([names.get(name, name) for name in op.inputs])})
        if not names.keys().isdisjoint(op.inputs)
        else op
        for op in graph.ops
    ]
    loaded_graph = graph.model_copy(
        update={"tensors": (*graph.tensors, *tensors), "ops": (*loads, *ops)}
    )
    loaded_graph.__dict__["_id"] = graph.id
    return loaded_graph


def loading_pins(graph: Graph, setup: Setup) -> Mapping[str, Pin]:
    """Name of a loading op -> its pin; inputs that are loaded as needed have none.

    Raises SetupError where the setup has cuts for another number of inputs.
    """
    inputs = [tensor.name for tensor in graph.tensors if tensor.role in ("input", "label")]
    dataset = setup.dataset
    if dataset == "data_parallel":
        return {LOAD + name: Pin(op=LOAD + name, data_parallel=True) for name in inputs}
    if isinstance(dataset, str):
        return {}
    if len(dataset) != len(inputs):
        raise SetupError(
            f"the dataset has cuts for {len(dataset)} inputs, the graph has {len(inputs)}: "
            f"{', '.join(inputs[:8])}",
            pointer="/dataset",
        )
    return {
        LOAD + name: Pin(op=LOAD + name, outputs=(cuts,))
        for name, cuts in zip(inputs, dataset, strict=True)
        if cuts is not None
    }


def _unused_name(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "'"
    taken.add(name)
    return name
