"""The ops of a plan as a tree of modules, with equal consecutive siblings folded.

Numbered siblings are folded if the plan treats them equally: the same kinds, strategies and
layouts, op by op. The first one stands for all. A module with too many parts is divided into boxes
of consecutive parts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field

from meshwright.common.name_ranges import pattern
from meshwright.reports.ops import OpShare

MOST_PARTS = 400  # of one module without boxes; chosen
BOXED = 100  # parts of a box; chosen
EVERYWHERE = "in several stages"
Key = tuple[int, str]  # a stage and the name of an op in it


@dataclass(slots=True)
class Module:
    """A module. id: unique in a plan. parts: ops and modules, in plan order. copies: the ids of the
    modules that it stands for, starting with itself; empty if not folded."""

    id: str
    parts: list[Module | OpShare] = field(default_factory=list)
    copies: tuple[str, ...] = ()
    ops: int = 0

    @property
    def label(self) -> str:
        return self.id.rpartition(".")[2] or self.id


@dataclass(frozen=True, slots=True)
class Tree:
    """The folded tree of a plan. Keys are (stage, op).

    stands_for: the drawn op in place of a folded one. copy_of: the copies of folded modules that an
    op is in. drawn_for: the inverse of stands_for.
    """

    root: Module
    stands_for: dict[Key, Key]
    copy_of: dict[Key, tuple[str, ...]]
    drawn_for: dict[Key, list[Key]]


def tree_of(shares: Sequence[OpShare]) -> Tree:
    """The tree of all ops of a plan."""
    root = Module("")
    modules: dict[str, Module] = {"": root}

    def module(path: str) -> Module:
        entry = modules.get(path)
        if entry is None:
            entry = modules[path] = Module(path)
            module(path.rpartition(".")[0]).parts.append(entry)
        return entry

    often = Counter(share.own.op for share in shares)
    for share in shares:
        parts = [share.module] if share.module else []
        if often[share.own.op] > 1:
            parts.append(EVERYWHERE)  # small ops that each stage repeats
        module(".".join(parts)).parts.append(share)
    tree = Tree(root, {}, {}, {})
    _fold(root, tree)
    return tree


def ops_in(module: Module) -> Iterator[OpShare]:
    """The drawn ops of a module, in order."""
    for part in module.parts:
        if isinstance(part, Module):
            yield from ops_in(part)
        else:
            yield part


def _fold(module: Module, tree: Tree) -> Hashable:
    """Fold equal siblings in a module; return a value that equal modules share."""
    parts: list[Module | OpShare] = []
    meanings: list[Hashable] = []
    last: Hashable = None
    for part in module.parts:
        if isinstance(part, OpShare):
            module.ops += 1
            parts.append(part)
            meanings.append(_meaning(part))
            last = None
            continue
        meaning = _fold(part, tree)
        module.ops += part.ops
        previous = parts[-1] if parts else None
        if isinstance(previous, Module) and last == meaning and _are_numbered(previous, part):
            previous.copies = (*(previous.copies or (previous.id,)), part.id)
            _merge(previous, part, tree)
            continue
        parts.append(part)
        meanings.append(meaning)
        last = meaning
    module.parts = _divide(module, parts)
    return module.label if not _is_number(module) else "", tuple(meanings)


def _merge(first: Module, other: Module, tree: Tree) -> None:
    """Draw the ops of the first module in place of those of the other and of their folded ops."""
    for a, b in zip(ops_in(first), ops_in(other), strict=True):
        key, folded = (a.stage, a.own.op), (b.stage, b.own.op)
        copies = tree.copy_of.get(key, ())
        if first.id not in copies:
            tree.copy_of[key] = (*copies, first.id)
        also = [folded, *tree.drawn_for.pop(folded, ())]
        for op in also:
            tree.stands_for[op] = key
            tree.copy_of[op] = (*tree.copy_of.get(op, ()), other.id)
        tree.drawn_for.setdefault(key, []).extend(also)


def _divide(
    module: Module, parts: list[Module | OpShare], count: int = 0, each: int = 1
) -> list[Module | OpShare]:
    """Divide parts into boxes of BOXED, recursively; each part covers `each` of `count` parts."""
    if len(parts) <= MOST_PARTS:
        return parts
    count = count or len(parts)
    boxes: list[Module | OpShare] = []
    for start in range(0, len(parts), BOXED):
        box_parts = parts[start : start + BOXED]
        if len(box_parts) == 1:
            boxes += box_parts
            continue
        ops = sum(
            part.ops * max(1, len(part.copies)) if isinstance(part, Module) else 1
            for part in box_parts
        )
        name = f"{start * each}…{min(count, (start + BOXED) * each) - 1}"
        boxes.append(Module(f"{module.id}.{name}" if module.id else name, box_parts, (), ops))
    return _divide(module, boxes, count, each * BOXED)


def _are_numbered(one: Module, other: Module) -> bool:
    """Whether both are numbered, such as layers.0 and layers.1."""
    return _is_number(one) and _is_number(other)


def _is_number(module: Module) -> bool:
    return module.label.isdigit()


def _meaning(share: OpShare) -> Hashable:
    """A value that ops share if the plan treats them equally."""
    op = share.own
    return (
        pattern(op.op),
        op.kind,
        tuple(op.strategy.items()),
        tuple(op.partial.items()),
        op.followers,
        share.stage,
        tuple([lying.axes for lying in (*share.inputs, *share.outputs)]),
    )
