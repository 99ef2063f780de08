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
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bench.mindspore_completion import Fixed, Placement, complete, fixed
from bench.mindspore_record import document, text
from bench.mindspore_strategies import DATA, Recorded, recorded
from bench.timing import say
from costmodel.presets import preset
from meshwright.schema import Cost, Setup
from solver.problem import step_batch

# Ascend, as MindSpore has it: 8, 64 and 512 devices
CLUSTERS = {8: "910b-1x8", 64: "910b-8x8", 512: "910b-64x8"}
ABOUT = {
    "source": (
        "Strategies found by the searches of MindSpore 2.10.0 (mindspore==2.10.0 from PyPI, "
        "Apache-2.0) for four models built of its operators, recorded on 21 November 2026. They "
        "are the program's output; nothing of MindSpore itself is here."
    ),
    "command": (
        "mindspore_search.py --model M --device-num N --search-mode S --dataset full|sharded "
        "[--layers L --hidden H --heads A --batch B --forward-only]: one JSON line a case, of "
        "which `python -m bench.mindspore --record FILE` makes this file"
    ),
}


@dataclass(frozen=True, slots=True)
class Row:
    """Both plans of one case, without a limit in one batch, and with the device's memory.

    ranked: MindSpore's with its own numbering of devices. microbatches: the fewest with which its
    strategies fit, None where they never do; both plans under the limit have as many.
    """

    case: Recorded
    given: Fixed
    ranked: Cost | None
    theirs: Cost
    ours: Cost
    microbatches: int | None
    theirs_fitting: Cost | None
    ours_fitting: Cost | None

    @property
    def capacity(self) -> int:
        return self.theirs.memory_bytes.capacity


def compared(case: Recorded) -> Row:
    """A case on the cluster of its size."""
    given = fixed(case, preset(CLUSTERS[case.devices]))
    capacity = given.topology.device.memory_bytes
    limit = capacity * (1 - Setup().memory_reserve)
    kept = partial(complete, given, given.cuts)
    theirs, ours = kept(), complete(given, {})
    assert theirs is not None
    assert ours is not None
    fitting = own = None
    count: int | None = 1
    if max(theirs.memory_bytes.total, ours.memory_bytes.total) <= capacity:
        fitting, own = theirs, ours
    batch = step_batch(given.graph, Setup()) or 1
    while fitting is None and count is not None:
        fitting = kept(microbatches=count, memory_limit_bytes=limit)
        if fitting is None:
            count = 2 * count if batch % (2 * count) == 0 else None
        else:
            own = complete(given, {}, microbatches=count, memory_limit_bytes=limit)
    ranked = kept(placement=Placement.RANKS)
    return Row(case, given, ranked, theirs, ours, count, fitting, own)


def line(row: Row) -> str:
    """A row of the table."""
    case, theirs, ours = row.case, row.theirs, row.ours
    ranked = f"{row.ranked.step_ns / 1e6:9.2f}" if row.ranked else "     none"
    found = (
        f"{case.name:26} {case.devices:4} {ranked} {theirs.step_ns / 1e6:9.2f} "
        f"{ours.step_ns / 1e6:9.2f} {theirs.step_ns / ours.step_ns:6.2f} "
        f"{_gib(theirs):7.1f} {_gib(ours):7.1f} "
    )
    if row.theirs_fitting is None or row.ours_fitting is None:
        found += f"{'-':>4} {'never fits':>20} {'-':>6} {'-':>7}"
    else:
        fit, own = row.theirs_fitting, row.ours_fitting
        found += (
            f"{row.microbatches:4} {fit.step_ns / 1e6:10.2f} {own.step_ns / 1e6:9.2f} "
            f"{fit.step_ns / own.step_ns:6.2f} {_gib(own):7.1f}"
        )
    return f"{found}  {'; '.join(case.found_by)}"


HEAD = (
    f"{'':26} {'':4} {'no limit':>28} {'':6} {'GiB':>15} {'fitting, microbatches':>30}\n"
    f"{'case':26} {'devs':>4} {'ranks':>9} {'MindSpore':>9} {'ours ms':>9} {'ratio':>6} "
    f"{'theirs':>7} {'ours':>7} {'mb':>4} {'MindSpore':>10} {'ours ms':>9} {'ratio':>6} {'GiB':>7}"
)


def _gib(cost: Cost) -> float:
    return cost.memory_bytes.total / 2**30


def table(cases: Sequence[Recorded]) -> None:
    say(HEAD)
    for case in cases:
        row = compared(case)
        say(line(row))
        for words in row.given.dropped:
            say(f"    left out: {words}")


def main() -> None:
    parser = argparse.ArgumentParser(description="MindSpore's strategies and ours")
    parser.add_argument("--record", nargs="*", type=Path, default=[])
    files = parser.parse_args().record
    if files:
        lines = [line for file in files for line in file.read_text().splitlines()]
        DATA.parent.mkdir(exist_ok=True)
        DATA.write_text(text(document(lines, ABOUT)))
    else:
        table(recorded())


if __name__ == "__main__":
    main()
