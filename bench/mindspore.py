"""`python -m bench.mindspore`: MindSpore's own strategies and ours, put through one judge.

Its searches give every op a strategy (`bench.mindspore_strategies`). These are fixed and the rest
is completed exactly (`bench.mindspore_completion`), so that MindSpore gets for nothing what its
searches do not decide: the best placement, ZeRO, as few microbatches as fit. Beside it stands the
same search with nothing fixed.

    python -m bench.mindspore                  the table
    python -m bench.mindspore --record FILE    the data file anew, from what MindSpore answered
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.mindspore_completion import AXES, Fixed, Placement, complete, fixed
from bench.mindspore_record import document, text
from bench.mindspore_strategies import DATA, Cuts, Recorded, recorded
from bench.timing import say
from meshwright.schema import Cost, Setup, step_batch
from meshwright_costmodel.presets import preset

# Ascend, as MindSpore has it: 8, 64 and 512 devices
CLUSTERS = {8: "910b-1x8", 64: "910b-8x8", 512: "910b-64x8"}
ABOUT = {
    "source": (
        "Strategies found by the searches of MindSpore 2.10.0 (mindspore==2.10.0 from PyPI, "
        "Apache-2.0) for four models built of its operators, recorded on 21 November 2026. They "
        "are the program's output; nothing of MindSpore itself is here."
    ),
    "command": (
        "The four models: mindspore_search.py --model M --device-num N --search-mode S --dataset "
        "full|sharded [--seed-mp W] [--layers L --hidden H --heads A --batch B --forward-only]. "
        "Stored graphs (examples/graphs): compiled the same way, rebuilt op by op of MindSpore's "
        "operators (linear: Reshape, MatMul, Add; attention: FlashAttentionScore; loss: OneHot, "
        "Cast, SoftmaxCrossEntropyWithLogits, ReduceMean), whole batch on every device. CPU, front "
        "end only, memory capacity set to 1e13 so that no search fails for memory. Of the JSON "
        "lines `python -m bench.mindspore --record FILE` makes this file."
    ),
}


@dataclass(frozen=True, slots=True)
class Row:
    """Both plans of one case, without a limit in one batch, and with the device's memory.

    ranked: MindSpore's where its own numbering of devices says; None where that would take a mesh
    of too many axes. microbatches: the fewest with which its strategies fit, and ours are given as
    many; where they never fit, the fewest for ours, None where nothing does. Not searched on meshes
    of more than AXES axes: exact search under a limit takes too long there.
    """

    case: Recorded
    given: Fixed
    ranked: Cost | None
    theirs: Cost
    ours: Cost
    microbatches: int | None
    theirs_fitting: Cost | None
    ours_fitting: Cost | None


def compared(case: Recorded) -> Row:
    """A case on the cluster of its size."""
    given = fixed(case, preset(CLUSTERS[case.devices]))
    theirs, ours = complete(given, given.cuts), complete(given, {})
    assert theirs is not None
    assert ours is not None
    ranked = complete(given, given.cuts, placement=Placement.RANKS)
    if max(_total(theirs), _total(ours)) <= given.topology.device.memory_bytes:
        return Row(case, given, ranked, theirs, ours, 1, theirs, ours)
    if given.axes > AXES:
        return Row(case, given, ranked, theirs, ours, None, None, None)
    count, fitting = _fewest(given, given.cuts)
    if count is None:
        count, own = _fewest(given, {})
        return Row(case, given, ranked, theirs, ours, count, None, own)
    own = _fitting(given, {}, count)
    return Row(case, given, ranked, theirs, ours, count, fitting, own)


def _fewest(given: Fixed, cuts: Mapping[str, Cuts]) -> tuple[int | None, Cost | None]:
    """The fewest microbatches, by doubling, with which these cuts fit, and what they cost then."""
    batch = step_batch(given.graph, Setup()) or 1
    count = 1
    while batch % count == 0:
        found = _fitting(given, cuts, count)
        if found is not None:
            return count, found
        count *= 2
    return None, None


def _fitting(given: Fixed, cuts: Mapping[str, Cuts], microbatches: int) -> Cost | None:
    limit = given.topology.device.memory_bytes * (1 - Setup().memory_reserve)
    return complete(given, cuts, microbatches=microbatches, memory_limit_bytes=limit)


def line(row: Row) -> str:
    """A row of the table."""
    case, theirs, ours = row.case, row.theirs, row.ours
    fit, own = row.theirs_fitting, row.ours_fitting
    columns = (
        f"{case.name:26} {case.devices:4}",
        f"{_ms(row.ranked)} {_ms(theirs)} {_ms(ours)}",
        f"{theirs.objective_ns / ours.objective_ns:7.2f}",
        f"{_gib(theirs)} {_gib(ours)} {row.microbatches or '-':>4} {_ms(fit)} {_ms(own)}",
        f"{fit.objective_ns / own.objective_ns:7.2f}" if fit and own else f"{'-':>7}",
        f"{_gib(fit)} {_gib(own)}  {'; '.join(case.found_by)}",
    )
    return " ".join(columns)


HEAD = " ".join(
    (
        f"{'case':26} {'devs':>4} {'ranks ms':>9} {'theirs ms':>9} {'ours ms':>9} {'ratio':>7}",
        f"{'GiB':>7} {'GiB':>7} {'mb':>4} {'fitting':>9} {'ours ms':>9} {'ratio':>7}",
        f"{'GiB':>7} {'GiB':>7}  found by",
    )
)


def _ms(cost: Cost | None) -> str:
    return f"{cost.objective_ns / 1e6:9.2f}" if cost else f"{'-':>9}"


def _gib(cost: Cost | None) -> str:
    return f"{_total(cost) / 2**30:7.1f}" if cost else f"{'-':>7}"


def _total(cost: Cost) -> int:
    return cost.memory_bytes.total


def is_worse(row: Row) -> bool:
    """Whether ours costs more anywhere, beyond rounding."""
    pairs = [(row.ours, row.theirs), (row.ours_fitting, row.theirs_fitting)]
    return any(
        theirs is not None
        and (ours is None or ours.objective_ns > theirs.objective_ns * (1 + 1e-9))
        for ours, theirs in pairs
    )


def table(cases: Sequence[Recorded]) -> None:
    say(HEAD)
    worse = 0
    for case in cases:
        row = compared(case)
        worse += is_worse(row)
        say(line(row))
        for words in row.given.dropped:
            say(f"    left out: {words}")
    say(f"{len(cases)} cases, ours is worse in {worse}")


def main() -> None:
    parser = argparse.ArgumentParser(description="MindSpore's strategies and ours")
    parser.add_argument("models", nargs="*", help="only cases of these models")
    parser.add_argument("--record", nargs="+", type=Path, default=[])
    asked = parser.parse_args()
    if asked.record:
        lines = [line for file in asked.record for line in file.read_text().splitlines()]
        DATA.write_text(text(document(lines, ABOUT)))
    else:
        table([case for case in recorded() if not asked.models or case.model in asked.models])


if __name__ == "__main__":
    main()
