"""`python -m bench.published_calibration`: curves of devices, from published facts.

Device by device: products of bench/data/kernels.csv, collectives of bench/data/collectives.csv.gz,
by `meshwright_costmodel.least_squares`, held to priors, such as NCCL's own tuning tables. Devices
that were measured little take their relative's curves as priors, and say so. Some constants are
then moved by what whole steps say (`bench/data/step_constants.json`, `bench.published_step_fit`).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np

from bench.published_kernels import Product, Sent, collectives, one_device, products
from bench.timing import say
from meshwright.schema import Calibration, Device
from meshwright.schema.curves import AttentionCurve, Constant, DeviceCurves, ProductCurve, Protocol
from meshwright_costmodel import calibrations
from meshwright_costmodel.calibrations import (
    EXPOSED,
    HALF_HIDDEN,
    HIDDEN,
    datasheet_calibration,
)
from meshwright_costmodel.curve_constants import Column, CurveConstants
from meshwright_costmodel.least_squares import fit_logs

OUTPUT = Path(calibrations.__file__).with_name("published.json")
# chosen: as far as logs of one library's releases are from each other (bench/data/README.md)
NOISE = 0.1
SEARCHED = 0.25  # chosen: the best of a search is no typical shape
MEASUREMENTS_A_SOURCE = 9.0  # as for steps: what a source's rows get wrong together stays
NARROW, WIDE = 0.3, 0.7  # chosen: of priors that are a library's own numbers, and of guesses
# generation of the steps' constants, multiprocessors (NVIDIA's and AMD's architecture papers)
GENERATIONS = {"a100-80g": ("ampere", 108), "h100": ("hopper", 132), "b200": ("blackwell", 148)}
# device -> whose rows are taken with its own
ROWS = {
    "a100-80g": ("a100-80g", "a100-40g"), "h100": ("h100", "h200"), "b200": ("b200",),
    "v100": ("v100",), "mi300x": ("mi300x",),
}  # fmt: skip
# device -> relative, for those with few rows of their own or none
RELATIVES = {
    "v100": "a100-80g", "mi300x": "h100", "a100-40g": "a100-80g", "h200": "h100",
    "910b": "a100-80g", "910a": "a100-80g",
}  # fmt: skip
# device -> whose protocols its own are taken for: the library is the same, messages were all large
LIBRARIES = {"b200": "h100"}
TUNING = "published: NCCL src/graph/tuning.cc"
# generation -> shares of peak of large products and of fused attention
SHARES = {
    "ampere": (
        (0.78, "published: 0.75-0.87 on A100 (EleutherAI/cookbook, stas00/ml-engineering)"),
        (0.6, "published: 0.50-0.73, FlashAttention-2 (arXiv:2307.08691)"),
    ),
    "hopper": (
        (0.72, "published: 0.80 at best on H100 (stas00/ml-engineering)"),
        (0.5, "published: 0.35-0.75, FlashAttention-2 and 3 (arXiv:2407.08608)"),
    ),
    "blackwell": (
        (0.70, "published: 0.78 at best on B200 (stas00/ml-engineering)"),
        (0.5, "chosen: as on H100"),
    ),
}
# published: of large collectives, shares of the links in a node and of the network's ports (vTrain,
# stas00/ml-engineering, aws-samples)
INSIDE, BETWEEN = 0.78, 0.8
STEP_CONSTANTS = Path(__file__).parent / "data" / "step_constants.json"
TILE = 128  # published: NVIDIA, Matrix Multiplication Background User's Guide: a large tile's side


def prior_of(generation: str, multiprocessors: int) -> DeviceCurves:
    """What is known before any kernel, collective or step is looked at."""
    (product, of_product), (attention, of_attention) = SHARES[generation]

    def published(value: float, spread: float, source: str) -> Constant:
        return Constant(value=value, spread=spread, source=source)

    def chosen(value: float, spread: float, why: str) -> Constant:
        return Constant(value=value, spread=spread, source=f"chosen: {why}")

    def protocol(
        name: str,
        start_ns: float,
        start_between_ns: float,
        steps_of_links: tuple[float, float],
        share: float,
    ) -> Protocol:
        inside, between = steps_of_links
        filling = "nodes fill chunk by chunk, and chunks are small in LL, large in Simple"
        why = f"{TUNING}, base latency and latency of a hop, as shares of Simple's"
        return Protocol(
            name=name,
            start_ns=Constant(value=start_ns, spread=WIDE, source=TUNING),
            start_between_ns=chosen(start_between_ns, 1.0, filling),
            step=Constant(value=inside, spread=NARROW, source=why),
            step_between=Constant(value=between, spread=NARROW, source=why),
            share=chosen(INSIDE * share, NARROW, "of what large messages reach, what flags leave"),
            share_between=chosen(BETWEEN * share, NARROW, "the same"),
        )

    tile = "half of a tile of 128, the mean that is lost at an edge"
    wave = "half a wave of tiles of 128 x 128"
    return DeviceCurves(
        device=generation,
        flops_per_s=1.0,
        product=ProductCurve(
            share=published(product, 0.1, of_product),
            eight_bit=chosen(0.8, 0.2, "scaling and casts beside products"),
            half_tile=chosen(TILE / 2, WIDE, tile),
            fill=chosen(multiprocessors * TILE**2 / 2, WIDE, wave),
            half_depth=chosen(TILE / 2, WIDE, "two steps of 32 before, two after the products"),
            unhidden=chosen(0.2, 1.0, "little in kernels alone"),
            sustained=chosen(1.0, 0.15, "as single kernels"),
            sustained_eight_bit=chosen(1.0, 0.15, "as single kernels"),
            group_launches=chosen(2.0, 1.0, "a product and what orders its rows"),
            group_launches_eight_bit=chosen(4.0, 1.0, "the same, and two casts"),
        ),
        attention=AttentionCurve(
            share=published(attention, 0.2, of_attention),
            backward=published(
                0.8, 0.2, "published: FlashAttention-2 (arXiv:2307.08691), figures 4 and 6"
            ),
            half_head=chosen(32.0, 0.5, "64 is a fifth slower than 128 (arXiv:2307.08691)"),
            half_rows=published(
                500.0, 0.5, "published: 99 TFLOP/s at 512, 189 at 16,384 (arXiv:2307.08691)"
            ),
        ),
        memory=published(0.8, 0.15, "published: 0.7-0.85 on A100 (EleutherAI/cookbook)"),
        protocols=(
            protocol("LL", 6700.0, 2.5e4, (0.6 / 4.0, 5.0 / 14.0), 0.25),
            protocol("LL128", 14000.0, 5e4, (1.25 / 4.0, 8.5 / 14.0), 0.5),
            protocol("Simple", 8400.0, 2e5, (1.0, 1.0), 1.0),
        ),
        in_switch=None if generation == "ampere" else chosen(0.6, NARROW, "more than rings reach"),
    )  # fmt: skip


def fitted(prior: DeviceCurves, name: str, flat: Calibration) -> DeviceCurves:
    """The curves of a device from its rows, and from the prior.

    Products and collectives have no constant in common, and are fitted one after the other.
    """
    device = one_device(name).device
    own = prior.like(device=device.name, flops_per_s=device.peak_flops_per_s("bfloat16"))
    shapes = [row for row in products() if row.device in ROWS[name]]
    messages = [row for row in collectives().rows if row.device in ROWS[name] and _is_whole(row)]
    return _to_rows(_to_rows(own, shapes, name, flat), messages, name, flat)


def _is_whole(row: Sent) -> bool:
    """Part of a V100 node finds few of its cube mesh's links, which the cost model knows not of."""
    return row.device != "v100" or row.members == 8


def _to_rows(
    own: DeviceCurves, rows: Sequence[Product | Sent], name: str, flat: Calibration
) -> DeviceCurves:
    if not rows:
        return own
    constants = CurveConstants.of(own)
    devices = {one_device(each).device.name for each in ROWS[name]}

    def predicted(logs: Column) -> Column:
        curves = constants.with_values(logs)
        every = tuple(curves.like(device=each) for each in devices)
        calibration = flat.model_copy(update={"curves": every})
        return np.log([row.predicted_ns(calibration) for row in rows])

    logs, spreads = fit_logs(
        predicted, np.log([row.ns for row in rows]), _noise(rows), constants.logs,
        constants.spreads, step=1e-2, max_rounds=100,
    )  # fmt: skip
    sources = ", ".join(sorted({row.source.split("@")[0].split(" ")[0] for row in rows}))
    return constants.fit_result(
        logs, spreads, constants.spreads, f"fitted: {len(rows)} rows of {sources}"
    )


def _noise(rows: Sequence[Product | Sent]) -> Column:
    """Every source weighs as much as nine measurements, or as its rows where it has fewer."""
    keys = [(type(row), row.source, row.device, getattr(row, "nodes", 1)) for row in rows]
    counts = Counter(keys)
    noise = [
        (SEARCHED if isinstance(row, Product) and row.how != "one shape" else NOISE)
        / np.sqrt(min(1.0, MEASUREMENTS_A_SOURCE / counts[key]))
        for row, key in zip(rows, keys, strict=True)
    ]
    return np.array(noise)


@cache
def curves_of_kernels() -> tuple[DeviceCurves, ...]:
    """Of every preset's device, from kernels and collectives."""
    flat = datasheet_calibration()
    found: dict[str, DeviceCurves] = {}
    for name, (generation, multiprocessors) in GENERATIONS.items():
        prior = prior_of(generation, multiprocessors)
        if name in LIBRARIES:
            prior = prior.like(protocols=found[LIBRARIES[name]].protocols)
        found[name] = fitted(prior, name, flat)
    for name, relative in RELATIVES.items():
        device = one_device(name).device
        own = inherited(found[relative], device)
        found[name] = fitted(own, name, flat) if name in ROWS else own
    return tuple(found.values())


@cache
def family_of(device: str) -> str:
    """The generation whose factors a device with curves has: its own, or its relative's."""
    called = {one_device(name).device.name: name for name in (*GENERATIONS, *RELATIVES)}[device]
    while called not in GENERATIONS:
        called = RELATIVES[called]
    return GENERATIONS[called][0]


def with_steps(curves: DeviceCurves) -> DeviceCurves:
    """The curves moved by what whole steps say."""
    document = json.loads(STEP_CONSTANTS.read_text(encoding="utf-8"))
    factors, source = document["factors"], f"fitted: {document['source']}"
    family = family_of(curves.device)

    def moved(name: str, constant: Constant) -> Constant:
        factor = factors.get(f"{name}.{family}") or factors.get(name)
        if factor is None:
            return constant
        return Constant(
            value=float(f"{constant.value * factor['value']:.4g}"),
            spread=max(factor["spread"], constant.spread if curves.relative else 0.0),
            source=source,
        )

    return CurveConstants.of(curves).changed(moved)


def inherited(curves: DeviceCurves, device: Device) -> DeviceCurves:
    """A relative's curves, marked so, and no surer than a guess."""
    unsure = CurveConstants.of(curves).at_least(NARROW)
    peak = device.peak_flops_per_s("bfloat16")
    fill = unsure.product.fill
    scaled = fill.like(value=fill.value * peak / curves.flops_per_s)
    return unsure.like(
        device=device.name,
        flops_per_s=peak,
        relative=curves.device,
        product=unsure.product.like(fill=scaled),
    )


def main() -> None:
    flat = datasheet_calibration()
    document = json.loads(OUTPUT.with_name("datasheet.json").read_text())
    document["name"] = "published"
    document["source"] = (
        "Nothing is measured on your cluster. curves: fitted to published products, collectives "
        "and whole steps, each number with its spread and source (python -m "
        "bench.published_calibration); devices without measurements have a relative's, marked so. "
        "What has no curves, convolutions, hosts and sends between stages, has the data sheet's "
        f"shares: {flat.source.replace(HALF_HIDDEN, HIDDEN)}"
    )
    document["exposed"] = EXPOSED.model_dump(mode="json")
    document["curves"] = [
        with_steps(own).model_dump(mode="json", exclude_defaults=True)
        for own in curves_of_kernels()
    ]
    made = Calibration.from_dict(document)
    OUTPUT.write_text(json.dumps(made.to_dict(), indent=1) + "\n")
    say(f"{OUTPUT.name}: {made.id}")


if __name__ == "__main__":
    main()
