"""Functionalization: writes in place as new values, by PyTorch for an exported program.

The reader of an export handles writes to a tensor without views itself. PyTorch's functionalization
handles the others, but inlines regions under `torch.no_grad()`; their results are detached first.
"""

from __future__ import annotations

import warnings

import torch

NO_GRAD_REGION = "wrap_with_set_grad_enabled"


class NeedsFunctionalization(Exception):
    """A write that only functionalization turns into new values, such as one to a view."""


def is_in_place(operator: torch._ops.OpOverload) -> bool:
    """Whether an operator of PyTorch writes to its first argument alone, such as `add_`."""
    name = operator.overloadpacket.__name__
    if operator.namespace != "aten" or not name.endswith("_") or name.endswith("__"):
        return False
    first, *others = operator._schema.arguments
    return str(first.type) == "Tensor" and not any(
        argument.alias_info is not None and argument.alias_info.is_write for argument in others
    )


def functionalized(exported: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """The exported program without writes in place; changes the given one."""
    for module in exported.graph_module.modules():
        if isinstance(module, torch.fx.GraphModule):
            _detach_regions(module.graph)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        functional: torch.export.ExportedProgram = exported.run_decompositions({})
    return functional


def is_no_grad_region(node: torch.fx.Node) -> bool:
    return getattr(node.target, "__name__", "") == NO_GRAD_REGION and node.args[0] is False


def _detach_regions(graph: torch.fx.Graph) -> None:
    """Detach the floating results of regions under `torch.no_grad()`."""
    for region in [node for node in graph.nodes if is_no_grad_region(node)]:
        for result in list(region.users):
            tensor = result.meta.get("val")
            if not isinstance(tensor, torch.Tensor) or not tensor.is_floating_point():
                continue
            with graph.inserting_after(result):
                detached = graph.call_function(torch.ops.aten.detach.default, (result,))
            detached.meta = dict(result.meta)
            # the signature of the program names the nodes of its outputs
            result.replace_all_uses_with(
                detached,
                delete_user_cb=lambda user, detached=detached: (
                    user is not detached and user.op != "output"
                ),
            )
