"""`python -m tests.mindspore.record`: tests/data/mindspore anew, of what MindSpore says.

Graphs as captured, and for every case the network that a plan became, with the strategies as
MindSpore itself writes them into a file after `.shard()`. Says the rows of the table in
docs/how-to/mindspore.md. Run where MESHWRIGHT_MINDSPORE is the Python with MindSpore.
"""

from __future__ import annotations

import gzip
import sys
import tempfile
from collections import Counter
from pathlib import Path

from tests.mindspore.cases import CASES, DATA, MODELS, network, row
from tests.mindspore.children import capture, compiled

BATCHES = {"mlp": 64, "gpt": 8, "reid": 4096, "widedeep": 16384}


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        for model in MODELS:
            ran = capture(model, BATCHES[model], folder)
            assert ran.returncode == 0, ran.stderr
            _write(f"{model}.graph", (folder / f"{model}.json").read_text())
        for name, case in CASES.items():
            text = network(name).model_dump_json()
            file = folder / f"{name}.json"
            compiled(case.model, text, f"SAVE={file}", folder)
            _write(f"{name}.network", text)
            _write(f"{name}.strategies", file.read_text())
            found = compiled(case.model, text, "shard", folder)
            sys.stdout.write(row(name, Counter(own[0] for own in found["collectives"])) + "\n")


def _write(name: str, text: str) -> None:
    (DATA / f"{name}.json.gz").write_bytes(gzip.compress(text.encode(), mtime=0))


if __name__ == "__main__":
    main()
