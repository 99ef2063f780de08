"""Blocks of a module: what `fully_shard` gathers together and `checkpoint_wrapper` recomputes."""

from __future__ import annotations

from collections.abc import Iterator

from torch import nn

_CONTAINERS = (nn.ModuleList, nn.ModuleDict)  # which have no forward


def block_paths(module: nn.Module) -> tuple[str, ...]:
    """The paths of the repeated blocks: children of the outermost lists of modules.

    Lists of one module, and lists without parameters, are no lists of blocks.
    """
    return tuple(_blocks(module, ""))


def other_paths(module: nn.Module, blocks: tuple[str, ...]) -> tuple[str, ...]:
    """The paths of the modules outside of the blocks with parameters that no other module has."""
    owners: dict[int, set[str]] = {}
    for path, part in module.named_modules(remove_duplicate=False):
        for parameter in part.parameters(recurse=False):
            owners.setdefault(id(parameter), set()).add(path)
    found = []
    for path, part in module.named_modules():
        own = list(part.parameters(recurse=False))
        is_inside = any(path == block or path.startswith(f"{block}.") for block in blocks)
        is_leaf = path and own and not any(part.children())
        if is_leaf and not is_inside and all(owners[id(each)] == {path} for each in own):
            found.append(path)
    return tuple(found)


def _blocks(module: nn.Module, path: str) -> Iterator[str]:
    for name, child in module.named_children():
        own = f"{path}.{name}" if path else name
        if isinstance(child, (nn.ModuleList, nn.Sequential)) and len(child) > 1:
            blocks = [
                (place, block)
                for place, block in child.named_children()
                if any(True for _ in block.parameters())
                and any(True for _ in block.children())
                and not isinstance(block, _CONTAINERS)
            ]
            if len(blocks) > 1:
                yield from (f"{own}.{place}" for place, _ in blocks)
                continue
        yield from _blocks(child, own)
