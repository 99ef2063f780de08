"""Which draft groups get finer drafts, and in which order options are planned."""

from __future__ import annotations

from collections.abc import Sequence

from meshwright_solver.pipeline.candidates import Option
from meshwright_solver.pipeline.draft_group import DraftGroup
from meshwright_solver.pipeline.drafts import worth_ns

# shares of the best step that finer meshes may still gain
_NEAR = 1.1  # chosen: drafts on finer meshes seldom gain so much
_BEST_OF_RANKS = 1.5  # chosen: finer meshes can gain so much if a rank has many devices


def promising_groups(groups: Sequence[DraftGroup], single_ns: float, most: int) -> list[DraftGroup]:
    """The best group of every number of ranks, and others near the best; any if none fits.

    single_ns: the step of the plan without a pipeline.
    """
    estimated = sorted((group for group in groups if group.options), key=lambda group: group.ns)
    if not estimated:
        return list(groups)[:most]
    best_ns = min(estimated[0].ns, single_ns)
    estimated = [group for group in estimated if group.may_take(worth_ns(best_ns))]
    seen: set[int] = set()
    firsts, others = [], []
    for group in estimated:
        if group.ranks not in seen and group.ns <= _BEST_OF_RANKS * best_ns:
            firsts.append(group)
        elif group.ns <= _NEAR * best_ns:
            others.append(group)
        seen.add(group.ranks)
    return [*firsts, *others][:most]


def of_all_ranks(options: Sequence[Option]) -> list[Option]:
    """The options with the first of every number of ranks before all others.

    Estimates of one number of ranks have a common error.
    """
    firsts: dict[int, Option] = {}
    for option in options:
        firsts.setdefault(option.configuration.ranks, option)
    first = list(firsts.values())
    return [*first, *(option for option in options if not any(option is other for other in first))]
