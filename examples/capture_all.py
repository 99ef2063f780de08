"""Capture the examples anew: `python -m examples.capture_all [NAME ...]`."""

from __future__ import annotations

import sys
import time

import torch

from examples.catalogue import EXAMPLES


def main(names: list[str]) -> None:
    """Capture the named examples, or all."""
    torch.set_num_threads(1)
    for example in EXAMPLES:
        if names and example.name not in names:
            continue
        begin = time.perf_counter()
        graph = example.capture()
        seconds = time.perf_counter() - begin
        example.store(graph)
        unknown = "; ".join(graph.notes) or "none"
        sys.stdout.write(
            f"{example.name}: {len(graph.ops)} ops in {seconds:.1f} s, unknown: {unknown}\n"
        )


if __name__ == "__main__":
    main(sys.argv[1:])
