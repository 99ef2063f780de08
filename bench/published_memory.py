"""`python -m bench.published_memory`: memory that published runs took, and what the judge says.

Rows of bench/data/steps.csv.gz with measured memory whose model is a stored graph, each as
`estimate` plans its degrees. What a row does not say is as in Megatron-LM: ZeRO-1 (its distributed
optimizer), sequence parallelism with tp, no recompute.
"""

from __future__ import annotations

import argparse
import gzip
from collections.abc import Iterator
from pathlib import Path

from bench.published_plans import FITTED as GIVEN
from bench.timing import say
from meshwright.runs.table import Row, read
from meshwright.schema import Degrees, Graph, MemoryUse, Pipeline, Request, Setup
from meshwright_costmodel.presets import preset
from meshwright_solver.planning.planner import plan

GRAPHS = Path(__file__).parents[1] / "examples" / "graphs"
MODELS = ("llama3-8b", "llama3-70b")
DEVICES = {"A100-SXM-80GB": "a100-80g", "H100-SXM-80GB": "h100"}
GIB = 2**30


def rows() -> Iterator[Row]:
    for row in read(GIVEN):
        if row["mem_gib"] and row["model"] in MODELS and row["precision"] == "bf16":
            yield row


def predicted(row: Row) -> MemoryUse:
    """Of the fullest device."""
    dp, tp, pp = (int(row[name]) for name in ("dp", "tp", "pp"))
    batch = int(row["gbs"])
    text = gzip.decompress((GRAPHS / f"{row['model']}.json.gz").read_bytes())
    answer = plan(
        Request(
            graph=Graph.from_json(text),
            topology=preset(f"{DEVICES[row['hw']]}-{int(row['gpus']) // 8}x8"),
            setup=Setup(
                global_batch=batch,
                microbatches=batch // (dp * int(row["mbs"])),
                symbols={"seq": int(row["seq_len"])},
                uneven="pad",
            ),
            degrees=Degrees(dp=dp, tp=tp, zero=1, sequence_parallel=tp > 1),
            pipeline=Pipeline(ranks=pp),
        )
    )
    assert answer.plan is not None
    return answer.plan.cost.memory_bytes


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    columns = ("row", "model", "devices", "dp", "tp", "pp", "measured GiB", "predicted", "ratio")
    say(f"| {' | '.join(columns)} | states | saved |")
    say("|---" * (len(columns) + 2) + "|")
    errors = []
    for row in rows():
        memory = predicted(row)
        held = (memory.total - memory.reserved) / GIB
        states = (memory.parameters + memory.gradients + memory.optimizer) / GIB
        ratio = held / float(row["mem_gib"])
        errors.append(abs(ratio - 1))
        degrees = " | ".join(row[name] for name in ("dp", "tp", "pp"))
        say(
            f"| {row['row_id'][-4:]} | {row['model']} | {row['gpus']} {row['hw'][:4]} | {degrees} |"
            f" {row['mem_gib']} | {held:.1f} | {ratio:.2f} | {states:.1f} |"
            f" {memory.activations / GIB:.1f} |"
        )
    say(f"mean {100 * sum(errors) / len(errors):.0f} % off")


if __name__ == "__main__":
    main()
