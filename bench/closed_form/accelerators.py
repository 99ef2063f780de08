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

from meshwright.schema import Topology
from meshwright_costmodel.presets import preset

# devices whose constants were fitted
_FITTED = (("a100-80g", "ampere"), ("h100", "hopper"), ("b200", "blackwell"))
GB = 1e9
TERA = 1e12


@dataclass(frozen=True, slots=True)
class Accelerator:
    """relative: whose fitted constants it takes, where none were fitted for its own kind.

    best_product: share of peak of its best product, over that of its relative. flash: whether
    attention has a kernel of its own there.
    """

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
    best_product: float = 1.0
    flash: bool = True


# pattern of the name -> preset, generation, relative
_PRESETS = (
    (r"910b|910.?pro.?b|ascend.?a2|atlas", "910b", "ampere", "A100"),
    (r"910|ascend", "910a", "ampere", "A100"),
    (r"a[18]00.*40", "a100-40g", "ampere", None),
    (r"a[18]00", "a100-80g", "ampere", None),
    (r"(?<!bi[-_ ])v100", "v100", "ampere", "A100"),
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
    # NVIDIA DGX B300 data sheet; HGX B100 in the Blackwell architecture brief
    (r"b300", "B300", "blackwell", "B200", 2250, 4500, 8000, 268, 8, 900, 100),
    (r"\bb100", "B100", "blackwell", "B200", 1750, 3500, 8000, 180, 8, 900, 50),
    # NVIDIA V100 data sheet: 16 GB, and PCIe
    (r"v100.*pcie.*16|v100.*16.*pcie", "V100 PCIe 16GB", "ampere", "A100", 112, 112, 900, 16, 8,
     15.8, 12.5),
    (r"v100.*pcie", "V100 PCIe", "ampere", "A100", 112, 112, 900, 32, 8, 15.8, 12.5),
    (r"v100.*\b16 ?g", "V100 16GB", "ampere", "A100", 125, 125, 900, 16, 8, 150, 6.25),
    # NVIDIA H100 data sheet, PCIe and NVL
    (r"h[18]00.*pcie", "H100 PCIe", "hopper", "H100", 756, 1513, 2039, 80, 8, 63, 25),
    (r"h100.*nvl", "H100 NVL", "hopper", "H100", 835, 1671, 3938, 94, 8, 63, 25),
    # NVIDIA A100 data sheet, PCIe
    (r"a[18]00.*pcie.*40|a[18]00.*40.*pcie", "A100 PCIe 40GB", "ampere", "A100", 312, 312, 1555, 40,
     8, 31.5, 25),
    (r"a[18]00.*pcie", "A100 PCIe", "ampere", "A100", 312, 312, 1935, 80, 8, 31.5, 25),
    # as A100 and H100 with 8 and 8 links of 25 GB/s, resellers' data sheets
    (r"a800.*40", "A800 40GB", "ampere", None, 312, 312, 1555, 40, 8, 200, 25),
    (r"a800", "A800", "ampere", None, 312, 312, 2039, 80, 8, 200, 25),
    (r"h800", "H800", "hopper", None, 989.4, 1978.9, 3350, 80, 8, 200, 50),
    # AMD Instinct data sheets; of an MI250X one of two dies is a device
    (r"mi210", "MI210", "ampere", "A100", 181, 181, 1638, 64, 8, 31.5, 12.5),
    (r"mi250", "MI250X", "ampere", "A100", 191.5, 191.5, 1638, 64, 8, 100, 12.5),
    (r"mi325", "MI325X", "hopper", "H100", 1307.4, 2614.9, 6000, 256, 8, 448, 50),
    (r"mi350", "MI350X", "blackwell", "B200", 2306.9, 4613.7, 8000, 288, 8, 537, 50),
    (r"mi355", "MI355X", "blackwell", "B200", 2516.6, 5033.2, 8000, 288, 8, 537, 50),
    # Google Cloud TPU system architecture pages; a pod is one fast domain
    (r"tpu.*v2", "TPU v2", "ampere", "A100", 45, 45, 700, 16, 512, 62, 12.5),
    (r"tpu.*v3", "TPU v3", "ampere", "A100", 123, 123, 900, 32, 1024, 70, 12.5),
    (r"tpu.*v4|\bv4", "TPU v4", "ampere", "A100", 275, 275, 1228, 32, 4096, 150, 12.5),
    (r"v5p", "TPU v5p", "hopper", "H100", 459, 459, 2765, 95, 8960, 300, 25),
    (r"v5e|v5 ?lite", "TPU v5e", "ampere", "A100", 197, 394, 819, 16, 256, 100, 12.5),
    (r"v6e|trillium", "TPU v6e", "hopper", "H100", 918, 1836, 1640, 32, 256, 224, 25),
    (r"tpu.*7|ironwood", "TPU7x", "blackwell", "B200", 2307, 4614, 7380, 192, 9216, 600, 50),
    # AWS Neuron documentation, Trainium and Trainium2 architecture; EC2 Trn1 and Trn2 pages
    (r"trainium ?2|trn2", "Trainium2", "hopper", "H100", 667, 1299, 2900, 96, 16, 320, 25),
    (r"trainium|trn1", "Trainium", "ampere", "A100", 190, 190, 820, 32, 16, 192, 6.25),
    # Intel Gaudi 2 and 3 white papers: 21 ports of 12.5 and of 25 GB/s inside, 3 outside
    (r"gaudi ?-?3", "Gaudi 3", "hopper", "H100", 1678, 1678, 3700, 128, 8, 525, 75),
    (r"gaudi|hl-?225", "Gaudi 2", "ampere", "A100", 432, 865, 2450, 96, 8, 262.5, 37.5),
    # Huawei CloudMatrix384 (arXiv:2506.12708): a package of two dies
    (r"910c|ascend.?a3|atlas.*a3", "Ascend 910C", "ampere", "A100", 752, 1504, 3200, 128, 384, 196,
     50),
    # bins of `costmodel/meshwright_costmodel/devices/910b.json`
    (r"910b1", "Ascend 910B1", "ampere", "A100", 373.9, 747.8, 1600, 64, 8, 196, 25),
    (r"910b2", "Ascend 910B2", "ampere", "A100", 353.9, 707.8, 1600, 64, 8, 196, 25),
    (r"910b4", "Ascend 910B4", "ampere", "A100", 245.8, 491.5, 800, 32, 8, 196, 25),
    # NVIDIA H20 (reseller data sheets, no product page), H20-3e with the memory of an H200
    (r"h20-?3e|h20\b.*141", "H20-3e", "hopper", "H100", 148, 296, 4800, 141e9 / 2**30, 8, 450, 50),
    (r"h20\b", "H20", "hopper", "H100", 148, 296, 4000, 96, 8, 450, 50),
    # NVIDIA data sheets of A10, A30, A40, RTX A6000, RTX 6000 Ada, L4, L20, L40, L40S, T4: PCIe
    (r"a10g?\b", "A10", "ampere", "A100", 125, 125, 600, 24, 8, 31.5, 12.5),
    (r"a30\b", "A30", "ampere", "A100", 165, 165, 933, 24, 8, 31.5, 12.5),
    (r"a40\b", "A40", "ampere", "A100", 149.7, 149.7, 696, 48, 8, 31.5, 12.5),
    (r"a6000", "RTX A6000", "ampere", "A100", 154.8, 154.8, 768, 48, 8, 31.5, 12.5),
    (r"6000.?ada", "RTX 6000 Ada", "hopper", "H100", 364, 728, 960, 48, 8, 31.5, 12.5),
    (r"\bl4\b", "L4", "hopper", "H100", 121, 242, 300, 24, 8, 31.5, 12.5),
    (r"\bl20\b", "L20", "hopper", "H100", 119.5, 239, 864, 48, 8, 31.5, 25),
    (r"l40s", "L40S", "hopper", "H100", 362, 733, 864, 48, 8, 31.5, 25),
    (r"\bl40\b", "L40", "hopper", "H100", 181, 362, 864, 48, 8, 31.5, 25),
    (r"\bt4\b", "T4", "ampere", "A100", 65, 130, 320, 16, 4, 15.8, 3.1),
    # NVIDIA Ampere GA102, Ada and RTX Blackwell architecture white papers: float32 accumulation
    (r"5090", "RTX 5090", "blackwell", "B200", 209.5, 419, 1792, 32, 8, 63, 12.5),
    (r"4090", "RTX 4090", "hopper", "H100", 165.2, 330.3, 1008, 24, 8, 31.5, 12.5),
    (r"3090", "RTX 3090", "ampere", "A100", 71, 142, 936, 24, 8, 31.5, 12.5),
)  # fmt: skip

# published: share of its peak that a device's best product reaches (stas00/ml-engineering@744d01e,
# compute/accelerator/README.md, MAMF) over what the best of its relative does; GB300 and MI350X
# were not measured and are as GB200 and MI355X
_BEST_PRODUCT = {
    "AMD Instinct MI300X 192GB": 0.51 / 0.80,
    "MI325X": 0.60 / 0.80,
    "MI350X": 0.68 / 0.78,
    "MI355X": 0.68 / 0.78,
    "GB200": 0.73 / 0.78,
    "GB300": 0.73 / 0.78,
    "Gaudi 3": 0.74 / 0.80,
}
# published: flash-attention's README needs Ampere or newer
_WITHOUT_FLASH = ("v100", "t4")
_WITHOUT_TF32 = ("v100", "910", "t4")


def accelerator(name: str) -> Accelerator | None:
    """The device that a table calls `name`; None where the name says nothing."""
    wanted = name.lower()
    for pattern, called, generation, relative, *numbers in _OTHERS:
        if re.search(pattern, wanted):
            plain, eight, memory, gib, per_node, inside, between = numbers
            return Accelerator(
                called, generation, relative, plain * TERA, plain / 2 * TERA, eight * TERA,
                memory * GB, gib * 2.0**30, int(per_node), inside * GB, between * GB,
                _BEST_PRODUCT.get(called, 1.0), not called.lower().startswith(_WITHOUT_FLASH),
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
    return not called.lower().startswith(_WITHOUT_TF32)


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
        outer.link.device_bytes_per_s, _BEST_PRODUCT.get(device.name, 1.0),
        called not in _WITHOUT_FLASH,
    )  # fmt: skip
