"""Parts of a module: what `fully_shard` gathers together and `checkpoint` recomputes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

_CONTAINERS = (nn.ModuleList, nn.ModuleDict)  # which have no forward


def block_paths(module: nn.Module) -> tuple[str, ...]:
    """The paths of the repeated blocks: children of the outermost lists of modules.

    A list has at least two blocks, and a block has children and parameters.
    """
    return tuple(_blocks(module, ""))


def gathered_paths(module: nn.Module, blocks: tuple[str, ...]) -> tuple[str, ...]:
    """The paths of the parts that gather their parameters apart from the whole module.

    These are the blocks and the tables that are looked up; without blocks, all modules without
    children. A parameter that several modules share is gathered with the whole module.
    """
    owners: dict[int, set[str]] = {}
    for path, part in module.named_modules(remove_duplicate=False):
        for parameter in part.parameters(recurse=False):
            owners.setdefault(id(parameter), set()).add(path)
    found = list(blocks)
    for path, part in module.named_modules():
        own = list(part.parameters(recurse=False))
        is_alone = all(owners[id(parameter)] == {path} for parameter in own)
        is_inside = any(path == block or path.startswith(f"{block}.") for block in blocks)
        is_leaf = bool(path and own) and not any(part.children())
        is_gathered = not blocks or isinstance(part, nn.Embedding)
        if is_leaf and is_alone and is_gathered and not is_inside:
            found.append(path)
    return tuple(found)


def return_no_view(module: nn.Module) -> None:
    """Have a module return copies of views.

    An in-place op on a view that a module under `fully_shard` returns drops the hook that gathers
    its parameters for the backward pass.
    """

    def hook(_: nn.Module, __: Any, output: Any) -> Any:
        is_view = isinstance(output, torch.Tensor) and output._is_view()
        return output.clone() if is_view else output

    module.register_forward_hook(hook)


def _blocks(module: nn.Module, path: str) -> Iterator[str]:
    for name, child in module.named_children():
        own = f"{path}.{name}" if path else name
        if isinstance(child, (nn.ModuleList, nn.Sequential)):
            blocks = [place for place, block in child.named_children() if _is_block(block)]
            if len(blocks) > 1:
                yield from (f"{own}.{place}" for place in blocks)
                continue
        yield from _blocks(child, own)


def _is_block(module: nn.Module) -> bool:
    has_parameters = any(True for _ in module.parameters())
    has_children = any(True for _ in module.children())
    return has_parameters and has_children and not isinstance(module, _CONTAINERS)
