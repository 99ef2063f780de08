"""`python -m bench.published_kernels`: products and collectives that others measured, predicted.

For each source the mean error by flat shares of the data sheet and by the published calibration's
curves, which were fitted to these rows.
"""

from __future__ import annotations

import csv
import gzip
import io
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import fmean

from bench.timing import say
from meshwright.schema import DTYPE_BYTES, Calibration, Topology
from meshwright_costmodel.calibrations import datasheet_calibration, published_calibration
from meshwright_costmodel.collectives import (
    Collective,
    CollectiveCost,
    Extents,
    Interconnect,
    collective_lines,
)
from meshwright_costmodel.curves import Shape, rates_of
from meshwright_costmodel.operators import op_ns
from meshwright_costmodel.presets import preset

DATA = Path(__file__).parent / "data"
GB = 1e9
# pattern of the hardware's name -> preset
_DEVICES = (
    (r"A100-SXM-40GB", "a100-40g"), (r"A100", "a100-80g"), (r"H100", "h100"), (r"H200", "h200"),
    (r"B200", "b200"), (r"V100-SXM2", "v100"), (r"MI300X", "mi300x"),
)  # fmt: skip
# GB/s of one device's port between nodes, by a word of the row's link: AWS p4d and p4de (EFA,
# 4 x 100 Gb/s a node), p5 (32 x 100), p5en (16 x 200), Google A3 Mega (8 x 200), Jean Zay
_PORTS = (
    ("4x100 Gb/s per node", 6.25), ("32x100 Gb/s per node", 50.0), ("16x200 Gb/s per node", 50.0),
    ("8x200 Gb/s", 25.0), ("Omni-Path 100", 6.25),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Product:
    """tflops: as measured. how: one shape, or the best that a search found."""

    source: str
    device: str
    dtype: str
    how: str
    shape: Shape
    tflops: float

    @property
    def flops(self) -> float:
        own = self.shape
        return 2.0 * float(own.groups * own.rows * own.columns * own.depth)

    @property
    def ns(self) -> float:
        return self.flops / self.tflops / 1e3

    def predicted_ns(self, calibration: Calibration) -> float:
        """Of the kernel alone, as all sources measured them."""
        device, own = one_device(self.device).device, self.shape
        sides = own.rows * own.depth + own.columns * own.depth
        moved = own.groups * (DTYPE_BYTES[self.dtype] * sides + 2 * own.rows * own.columns)
        rates = rates_of(calibration, device)
        return op_ns(
            "matmul", self.flops * float(rates.kernel_stretch("matmul", own, self.dtype)),
            bytes_moved=float(moved), dtype=self.dtype, device=device,
            calibration=calibration.model_copy(update={"launch_ns": 0}),
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Sent:
    """A collective. payload_bytes: as the cost model counts them. port: GB/s between several nodes.

    is_in_switch: whether the row says that the switch adds up; None where it says nothing.
    """

    source: str
    device: str
    kind: Collective
    nodes: int
    members: int
    port: float | None
    payload_bytes: float
    ns: float
    is_in_switch: bool | None

    @property
    def topology(self) -> Topology:
        return cluster(self.device, self.nodes, self.members, self.port)

    @property
    def extents(self) -> Extents:
        names = [level.name for level in self.topology.levels]
        return tuple(self.nodes if name == "node" else self.members for name in names)

    def predicted_ns(self, calibration: Calibration) -> float:
        links = Interconnect.of(self.topology, calibration)
        lines = collective_lines(self.kind, self.extents, links)
        if self.is_in_switch is False:
            lines = lines[: len(links.protocol_rates)]
        return CollectiveCost.least_of(lines).ns(self.payload_bytes)


@dataclass(frozen=True, slots=True)
class SentRows:
    """skipped: why rows have no prediction, and how many."""

    rows: tuple[Sent, ...]
    skipped: dict[str, int]


@cache
def one_device(name: str) -> Topology:
    return preset(f"{name}-1x1")


@cache
def cluster(device: str, nodes: int, members: int, port: float | None) -> Topology:
    """A preset, with another network port where one is given."""
    found = preset(f"{device}-{nodes}x{max(members, 1)}")
    if port is None:
        return found
    document = found.to_dict()
    link = document["levels"][0]["link"]
    link.update(bytes_per_s=port * GB, devices_per_port=1)
    return Topology.from_dict(document)


@cache
def products() -> tuple[Product, ...]:
    with (DATA / "kernels.csv").open(newline="") as lines:
        return tuple(
            Product(
                row["source"], row["device"], row["dtype"], row["how"],
                Shape(*(float(row[name]) for name in ("groups", "m", "n", "k"))),
                float(row["tflops"]),
            )
            for row in csv.DictReader(lines)
        )  # fmt: skip


@cache
def collectives() -> SentRows:
    """Every row that says what was sent, how long it took, and on what."""
    text = gzip.decompress((DATA / "collectives.csv.gz").read_bytes()).decode()
    rows: list[Sent] = []
    skipped: dict[str, int] = {}
    for row in csv.DictReader(io.StringIO(text)):
        found = _sent(row)
        if isinstance(found, Sent):
            rows.append(found)
        else:
            skipped[found] = skipped.get(found, 0) + 1
    return SentRows(tuple(rows), skipped)


def _sent(row: dict[str, str]) -> Sent | str:
    device = next((own for pattern, own in _DEVICES if re.search(pattern, row["hw"])), None)
    if device is None:
        return "hardware unknown or not stated"
    if not row["size_bytes"]:
        return "a single figure without its message"
    kind = row["op"]
    if kind not in ("all_reduce", "all_gather", "reduce_scatter"):
        return f"no prediction of {kind}"
    ranks, nodes, payload = int(row["gpus"]), int(row["nodes"]), float(row["size_bytes"])
    port = None
    if nodes > 1:
        port = next((own for word, own in _PORTS if word in row["inter_link"]), None)
        if port is None:
            return "network not stated"
    if row["time_us"]:
        ns = float(row["time_us"]) * 1e3
    else:
        rounds = 2 if kind == "all_reduce" else 1
        ns = rounds * (ranks - 1) / ranks * payload / (float(row["busbw_GBps"]) * GB) * 1e9
    how = f"{row['algo']} {row['intra_link']}"
    in_switch = False if "Ring" in how else True if "NVLS" in how else None
    return Sent(
        _short(row["source"]), device, kind, nodes, ranks // nodes, port, payload, ns, in_switch
    )  # type: ignore[arg-type]  # one of the three above


def _short(source: str) -> str:
    """The repository alone."""
    return source.split("@")[0].split(" ")[0]


def table() -> list[str]:
    """Lines of a table: source, device, nodes, rows, and errors in percent by both calibrations."""
    found: dict[tuple[str, str, str], list[tuple[float, float]]] = {}
    rows: list[Product | Sent] = [*products(), *collectives().rows]
    for row in rows:
        what = "products" if isinstance(row, Product) else f"collectives, {row.nodes} nodes"
        errors = [
            abs(row.predicted_ns(own) / row.ns - 1)
            for own in (datasheet_calibration(), published_calibration())
        ]
        found.setdefault((_short(row.source), row.device, what), []).append((errors[0], errors[1]))
    lines = []
    for (source, device, what), pairs in found.items():
        flat, curved = (100 * fmean(own) for own in zip(*pairs, strict=True))
        lines.append(
            f"| {source} | `{device}` | {what} | {len(pairs)} | {flat:.0f} | {curved:.0f} |"
        )
    return lines


def main() -> None:
    say("| source | device | what | rows | data sheet's shares | curves |")
    say("|---" * 6 + "|")
    for line in table():
        say(line)
    for why, count in collectives().skipped.items():
        say(f"{count} rows of collectives without a prediction: {why}")


if __name__ == "__main__":
    main()
