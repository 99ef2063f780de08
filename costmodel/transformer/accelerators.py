"""What is known of devices by the names that tables of measurements give them.

Peaks are dense and of 16-bit products, in FLOP/s; bandwidths in bytes/s, one direction, a device.
Presets' devices come from their data sheets; the others below from their vendors' product pages.
A device whose generation was never measured takes its nearest relative's.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import cache

from costmodel.presets import preset
from meshwright.schema import Topology

# devices whose constants were fitted
_FITTED = (("a100-80g", "ampere"), ("h100", "hopper"), ("b200", "blackwell"))
GB = 1e9
TERA = 1e12


@dataclass(frozen=True, slots=True)
class Accelerator:
    """relative: whose fitted constants it takes, where none were fitted for its own kind."""

    name: str
    generation: str
    relative: str | None
    flops_per_s: float
    single_flops_per_s: float
    eight_bit_flops_per_s: float
    memory_bytes_per_s: float
    memory_bytes: float
    per_node: int
    inside_bytes_per_s: float
    between_bytes_per_s: float


# pattern of the name -> preset, generation, relative
_PRESETS = (
    (r"910b|910c|ascend", "910b", "ampere", "A100"),
    (r"910a|910(?![bc])", "910a", "ampere", "A100"),
    (r"a[18]00.*40", "a100-40g", "ampere", None),
    (r"a[18]00", "a100-80g", "ampere", None),
    (r"v100", "v100", "ampere", "A100"),
    (r"h200|gh200", "h200", "hopper", "H100"),
    (r"h[18]00", "h100", "hopper", None),
    (r"b200", "b200", "blackwell", None),
    (r"mi300|mi308", "mi300x", "hopper", "H100"),
)

# pattern, name, generation, relative, 16-bit and 8-bit TFLOP/s, GB/s of memory, GiB, devices that
# share a fast domain, GB/s inside it, GB/s of a port
_OTHERS = (
    # NVIDIA GB200 NVL72 and GB300 NVL72 product pages, a 72nd (sparse figures halved)
    (r"gb200", "GB200", "blackwell", "B200", 2500, 5000, 8000, 186, 72, 900, 50),
    (r"gb300", "GB300", "blackwell", "B200", 2500, 5000, 8000, 279, 72, 900, 100),
    # NVIDIA DGX B300 data sheet
    (r"b300", "B300", "blackwell", "B200", 2250, 4500, 8000, 268, 8, 900, 100),
    # AMD Instinct MI250X and MI325X data sheets; of an MI250X one of two dies is a device
    (r"mi250", "MI250X", "ampere", "A100", 191.5, 191.5, 1638, 64, 8, 100, 12.5),
    (r"mi325|mi355|mi350", "MI325X", "hopper", "H100", 1307.4, 2614.9, 6000, 256, 8, 448, 50),
    # Google Cloud TPU system architecture pages; a pod counts as one fast domain of 256
    (r"tpu.*v4|v4", "TPU v4", "ampere", "A100", 275, 275, 1228, 32, 256, 150, 12.5),
    (r"v5p", "TPU v5p", "hopper", "H100", 459, 459, 2765, 95, 256, 300, 25),
    (r"v5e|v5 ?lite", "TPU v5e", "ampere", "A100", 197, 394, 819, 16, 256, 100, 12.5),
    (r"v6e|trillium", "TPU v6e", "hopper", "H100", 918, 1836, 1640, 32, 256, 224, 25),
    # NVIDIA H20 (reseller data sheets, no product page)
    (r"h20\b", "H20", "hopper", "H100", 148, 296, 4000, 96, 8, 450, 50),
    # NVIDIA A10, A30, L40S data sheets: PCIe 4.0 x16
    (r"a10g?\b", "A10", "ampere", "A100", 125, 125, 600, 24, 8, 31.5, 12.5),
    (r"a30", "A30", "ampere", "A100", 165, 165, 933, 24, 8, 31.5, 12.5),
    (r"l40s?", "L40S", "hopper", "H100", 362, 733, 864, 48, 8, 31.5, 25),
)  # fmt: skip


def accelerator(name: str) -> Accelerator | None:
    """The device that a table calls `name`; None where the name says nothing."""
    wanted = name.lower()
    for pattern, called, generation, relative, *numbers in _OTHERS:
        if re.search(pattern, wanted):
            plain, eight, memory, gib, per_node, inside, between = numbers
            return Accelerator(
                called, generation, relative, plain * TERA, plain / 2 * TERA, eight * TERA,
                memory * GB, gib * 2.0**30, int(per_node), inside * GB, between * GB,
            )  # fmt: skip
    for pattern, called, generation, kin in _PRESETS:
        if re.search(pattern, wanted):
            return _of_preset(called, generation, kin)
    return None


def stand_in(name: str, flops_per_s: float, memory_bytes: float) -> Accelerator:
    """A device of which only a peak is known.

    Chosen: 300 FLOP a byte of memory traffic, as NVIDIA's devices of 2020 to 2024 have 153 to 295;
    eight a node; links of a device of that peak. It takes the constants of the generation whose
    peak is nearest.
    """
    known = [_of_preset(name, generation, None) for name, generation in _FITTED]
    nearest = min(known, key=lambda own: abs(math.log(own.flops_per_s / flops_per_s)))
    return Accelerator(
        name, nearest.generation, nearest.name, flops_per_s, flops_per_s / 2, flops_per_s,
        flops_per_s / 300, memory_bytes, 8, nearest.inside_bytes_per_s, nearest.between_bytes_per_s,
    )  # fmt: skip


def _has_tf32(called: str) -> bool:
    """Whether products of float32 run at half the rate of 16-bit ones."""
    return not called.startswith(("v100", "910"))


@cache
def _of_preset(called: str, generation: str, relative: str | None) -> Accelerator:
    server: Topology = preset(f"{called}-2x8")
    device = server.device
    outer, *inner = server.levels
    plain = max(device.peak_flops_per_s("bfloat16"), device.peak_flops_per_s("float16"))
    return Accelerator(
        device.name, generation, relative, plain,
        plain / 2 if _has_tf32(called) else device.peak_flops_per_s("float32"),
        max(plain, device.peak_flops_per_s("float8_e4m3")), device.memory_bytes_per_s,
        float(device.memory_bytes), 8, inner[-1].link.device_bytes_per_s,
        outer.link.device_bytes_per_s,
    )  # fmt: skip
