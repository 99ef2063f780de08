"""A plan's ops as a tree of modules; equal neighbours are one, so often.

Siblings are folded where all that a plan does in them is the same but for their number: kinds,
strategies and layouts, op by op. The first one stands for all. Where a module has more parts than
a person can look at, neighbours are put together in boxes of their own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field

from meshwright.common.name_ranges import pattern
from meshwright.reports.ops import OpShare

MOST_PARTS = 400  # of one module; chosen: more are put into boxes
BOXED = 100  # parts of a box; chosen
EVERYWHERE = "in several stages"
Key = tuple[int, str]  # a stage and the name of an op in it


@dataclass(slots=True)
class Module:
    """id: of the module, unique in a plan. parts: ops and modules, in the plan's order. copies: the
    ids of the modules that this one stands for, itself the first."""

    id: str
    parts: list[Module | OpShare] = field(default_factory=list)
    copies: tuple[str, ...] = ()
    ops: int = 0

    @property
    def label(self) -> str:
        return self.id.rpartition(".")[2] or self.id


@dataclass(frozen=True, slots=True)
class Tree:
    """root: of all modules. stands_for: by (stage, op), the one that is drawn in its place.
    copy_of: by (stage, op) that is drawn or not, in which copies of folded modules it is.
    drawn_for: stands_for the other way round."""

    root: Module
    stands_for: dict[Key, Key]
    copy_of: dict[Key, tuple[str, ...]]
    drawn_for: dict[Key, list[Key]]


def tree_of(shares: Sequence[OpShare]) -> Tree:
    """The tree of all ops of a plan."""
    root = Module("")
    modules: dict[str, Module] = {"": root}

    def module(path: str) -> Module:
        found = modules.get(path)
        if found is None:
            found = modules[path] = Module(path)
            module(path.rpartition(".")[0]).parts.append(found)
        return found

    often = Counter(share.own.op for share in shares)
    for share in shares:
        parts = [share.module] if share.module else []
        if often[share.own.op] > 1:
            parts.append(EVERYWHERE)  # small things that every stage makes for itself
        module(".".join(parts)).parts.append(share)
    tree = Tree(root, {}, {}, {})
    _fold(root, tree)
    return tree


def ops_in(module: Module) -> Iterator[OpShare]:
    """All ops of a module that are drawn, in order."""
    for part in module.parts:
        if isinstance(part, Module):
            yield from ops_in(part)
        else:
            yield part


def _fold(module: Module, tree: Tree) -> Hashable:
    """Fold what is equal in a module; what the module means."""
    kept: list[Module | OpShare] = []
    meanings: list[Hashable] = []
    last: Hashable = None
    for part in module.parts:
        if isinstance(part, OpShare):
            module.ops += 1
            kept.append(part)
            meanings.append(_meaning(part))
            last = None
            continue
        meaning = _fold(part, tree)
        module.ops += part.ops
        before = kept[-1] if kept else None
        if isinstance(before, Module) and last == meaning and _are_numbered(before, part):
            before.copies = (*(before.copies or (before.id,)), part.id)
            _stand(before, part, tree)
            continue
        kept.append(part)
        meanings.append(meaning)
        last = meaning
    module.parts = _boxed(module, kept)
    return module.label if not _is_number(module) else "", tuple(meanings)


def _stand(first: Module, other: Module, tree: Tree) -> None:
    """The first one's ops are drawn for the other's, with what these stand for."""
    for a, b in zip(ops_in(first), ops_in(other), strict=True):
        key, own = (a.stage, a.own.op), (b.stage, b.own.op)
        copies = tree.copy_of.get(key, ())
        if first.id not in copies:
            tree.copy_of[key] = (*copies, first.id)
        also = [own, *tree.drawn_for.pop(own, ())]
        for one in also:
            tree.stands_for[one] = key
            tree.copy_of[one] = (*tree.copy_of.get(one, ()), other.id)
        tree.drawn_for.setdefault(key, []).extend(also)


def _boxed(
    module: Module, parts: list[Module | OpShare], count: int = 0, each: int = 1
) -> list[Module | OpShare]:
    """Boxes of a hundred, boxes of a hundred of those …: each of `parts` is so many of `count`."""
    if len(parts) <= MOST_PARTS:
        return parts
    count = count or len(parts)
    found: list[Module | OpShare] = []
    for start in range(0, len(parts), BOXED):
        own = parts[start : start + BOXED]
        if len(own) == 1:
            found += own
            continue
        ops = sum(
            part.ops * max(1, len(part.copies)) if isinstance(part, Module) else 1 for part in own
        )
        name = f"{start * each}…{min(count, (start + BOXED) * each) - 1}"
        found.append(Module(f"{module.id}.{name}" if module.id else name, own, (), ops))
    return _boxed(module, found, count, each * BOXED)


def _are_numbered(one: Module, other: Module) -> bool:
    """Whether both are members of one row, such as layers.0 and layers.1."""
    return _is_number(one) and _is_number(other)


def _is_number(module: Module) -> bool:
    return module.label.isdigit()


def _meaning(share: OpShare) -> Hashable:
    """What a plan does with an op, but for where it stands."""
    own = share.own
    return (
        pattern(own.op),
        own.kind,
        tuple(own.strategy.items()),
        tuple(own.partial.items()),
        own.followers,
        share.stage,
        tuple([lying.axes for lying in (*share.inputs, *share.outputs)]),
    )
