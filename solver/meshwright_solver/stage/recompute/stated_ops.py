"""Stated recomputation: the ops of globs, in segments.

The ops in a block of the graph have the block for a segment. Other ops form runs: consecutive ops
of one module that a glob matches, or of no such module. A run's segment ends with the last reader
of its values, at most before the next run. A value with a later reader is saved.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase

from meshwright.schema import Graph, Op, RequestError
from meshwright_solver.common.name_globs import Names, alike
from meshwright_solver.problem.problem import Problem
from meshwright_solver.problem.recomputed_ops import NOTHING, Communication, RecomputedOps
from meshwright_solver.problem.values import ProblemValue, Values
from meshwright_solver.rules.op_knowledge import RECEIVE
from meshwright_solver.stage.recompute.blocks import BlockNames, blocks


def stated(
    problem: Problem,
    values: Values,
    globs: Sequence[str],
    names: BlockNames | None = None,
    communication: Communication = "auto",
) -> RecomputedOps:
    """The ops of the globs whose results the backward pass needs, in segments.

    names: the blocks of the whole graph, where the problem is of a part of it.
    """
    if not problem.training:
        return NOTHING
    made = _values_made(values)
    positions = {p for p in _matched(problem, values, globs) if _moves(made.get(p, ()))}
    segments = [range(a, b) for a, b in _segments(problem, values, positions, globs, names, made)]
    segment_of = {p: number for number, segment in enumerate(segments) for p in segment}
    again: set[int] = set()
    for position in sorted(positions, reverse=True):
        if any(_is_wanted(value, position, again, segment_of) for value in made.get(position, ())):
            again.add(position)
    if not again:
        return NOTHING
    names_of = [op.name for op in problem.ops]
    used = {segment_of[position] for position in again}
    return RecomputedOps(
        "stated",
        frozenset(names_of[position] for position in again),
        {names_of[p]: number for p, number in segment_of.items() if number in used},
        communication,
    )


def check_globs(graph: Graph, globs: Sequence[str]) -> None:
    """Raise RequestError for a glob that matches no op of the whole graph."""
    for number, glob in enumerate(globs):
        if not _positions(graph.ops, [glob]):
            raise RequestError(
                f"recompute ops {glob!r} matches no op; ops are named like "
                f"{alike(glob, [op.name for op in graph.ops])}. Use a glob of names or modules",
                pointer=f"/recompute/ops/{number}",
            )


def _matched(problem: Problem, values: Values, globs: Sequence[str]) -> set[int]:
    found = _positions([op.op for op in problem.ops], globs)
    return {p for p in found - values.views if problem.ops[p].op.kind != RECEIVE}


def _positions(ops: Sequence[Op], globs: Sequence[str]) -> set[int]:
    """The ops whose name, or a module that they are in, matches a glob."""
    members: dict[str, list[int]] = {}
    for position, op in enumerate(ops):
        for path in {op.name, *_modules(op)}:
            members.setdefault(path, []).append(position)
    paths = list(members)
    names = Names(paths)
    return {p for glob in globs for k in names.matching(glob) for p in members[paths[k]]}


def _modules(op: Op) -> list[str]:
    """The modules that an op is in, from the outermost; by its name where it has no module."""
    words = (op.module or op.name).split(".")
    return [".".join(words[:count]) for count in range(1, len(words) + 1)]


def _values_made(values: Values) -> dict[int, list[ProblemValue]]:
    made: dict[int, list[ProblemValue]] = {}
    for value in values.values:
        if value.producer is not None:
            made.setdefault(value.producer[0], []).append(value)
    return made


def _moves(made: Sequence[ProblemValue]) -> bool:
    return any(not value.is_free for value in made)


def _segments(
    problem: Problem,
    values: Values,
    positions: set[int],
    globs: Sequence[str],
    names: BlockNames | None,
    made: dict[int, list[ProblemValue]],
) -> Iterator[tuple[int, int]]:
    """Disjoint ranges of positions, in order."""
    in_blocks = [b for b in blocks(problem, values, names) if not positions.isdisjoint(b)]
    rest = sorted(positions.difference(*in_blocks))
    runs = list(_runs(problem, values, rest, globs, {block.start for block in in_blocks}))
    starts = sorted([*(block.start for block in in_blocks), *(run[0] for run in runs)])
    ranges = [(block.start, block.stop) for block in in_blocks]
    for run in runs:
        limit = next((start for start in starts if start > run[-1]), len(problem.ops))
        ends = [_last_reader(value) for p in run for value in made.get(p, ())]
        ranges.append((run[0], max([run[-1], *(end for end in ends if end < limit)]) + 1))
    yield from sorted(ranges)


def _runs(
    problem: Problem, values: Values, rest: Sequence[int], globs: Sequence[str], starts: set[int]
) -> Iterator[list[int]]:
    """Consecutive ops of one module; views and blocks' starts between them are skipped or cut."""
    run: list[int] = []
    module = ""
    for position in rest:
        its = _module(problem, position, globs)
        between = range(run[-1] + 1, position) if run else range(0)
        is_cut = any(p not in values.views or p in starts for p in between)
        if run and (its != module or is_cut):
            yield run
            run = []
        run.append(position)
        module = its
    if run:
        yield run


def _module(problem: Problem, position: int, globs: Sequence[str]) -> str:
    """The shortest beginning of the op's module path that a glob matches; else empty."""
    op = problem.ops[position].op
    for path in _modules(op):
        if any(fnmatchcase(path, glob) for glob in globs):
            return path
    return ""


def _last_reader(value: ProblemValue) -> int:
    return max((position for position, _ in value.readers), default=-1)


def _is_wanted(
    value: ProblemValue, position: int, again: set[int], segment_of: dict[int, int]
) -> bool:
    """Whether the backward pass needs the value in its segment, and nowhere else."""
    readers = {reader for reader, _ in value.saving}
    readers |= {reader for reader, _ in value.readers if reader in again}
    if not (readers or value.saved_by_producer):
        return False
    return all(segment_of.get(reader) == segment_of[position] for reader in readers)
