"""Devices by the names that tables of measurements give them.

A device of a preset has the preset's data sheet, node and links. The others below come from their
vendors' product pages: they are in no preset, have switched links, and take the curves of the
relative that the calibration finds for them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from meshwright.plugins import preset
from meshwright.schema import Device, Level, Link, Topology, TopologyError

GB = 1e9
GIB = 2.0**30
TERA = 1e12
NETWORK_NS, INSIDE_NS = 14_000, 4_000  # published: NCCL src/graph/tuning.cc, tree and PAT, Simple
ANY_NODE = 8  # chosen: devices of a node of an unknown device
# chosen: FLOP a byte of memory traffic of an unknown device; NVIDIA's of 2020 to 2024: 153 to 295
FLOPS_A_BYTE = 300


@dataclass(frozen=True, slots=True)
class KnownDevice:
    """A device, the devices of its node, and its bandwidths in bytes/s, one direction.

    called: the preset whose topologies it has; empty for a device that is in none. has_flash:
    whether attention has a fused kernel there.
    """

    device: Device
    per_node: int
    inside_bytes_per_s: float
    between_bytes_per_s: float
    called: str = ""
    has_flash: bool = True

    def topology(self, devices: int, per_node: int) -> Topology:
        """`devices` of them in nodes of `per_node`, which divides them."""
        nodes = devices // per_node
        found = self._preset(devices, nodes, per_node)
        if found is not None:
            return found.model_copy(update={"device": self.device})
        levels = (
            Level(name="node", size=nodes, link=_link(self.between_bytes_per_s, "infiniband")),
            Level(name="gpu", size=per_node, link=_link(self.inside_bytes_per_s, "nvlink")),
        )
        kept = tuple(level for level in levels if level.size > 1) or levels[-1:]
        return Topology(name=self.device.name, device=self.device, levels=kept)

    def _preset(self, devices: int, nodes: int, per_node: int) -> Topology | None:
        """The preset of these devices; None where there is none of this size."""
        if not self.called:
            return None
        sizes = _slice(devices, _PODS[self.called]) if self.called in _PODS else (nodes, per_node)
        try:
            return preset("-".join((self.called, "x".join(map(str, sizes)))))
        except TopologyError:
            return None


def _slice(devices: int, dims: int) -> tuple[int, ...]:
    """The sizes of a slice of a pod, as near to equal as divisors are, the smallest first."""
    if dims == 1:
        return (devices,)
    side = round(devices ** (1 / dims))
    first = next(size for size in range(side, 0, -1) if devices % size == 0)
    return (first, *_slice(devices // first, dims - 1))


def _link(bytes_per_s: float, kind: str) -> Link:
    latency_ns = NETWORK_NS if kind == "infiniband" else INSIDE_NS
    return Link(kind=kind, bytes_per_s=bytes_per_s, latency_ns=latency_ns)


# preset of a pod -> the dimensions of its torus
_PODS = {"tpu-v4": 3, "tpu-v5e": 2, "tpu-v5p": 3, "tpu-v6e": 2, "tpu-v7x": 3}
# pattern of the name -> preset, devices of a fast domain
_PRESETS = (
    (r"gb200", "gb200", 72),
    (r"gb300", "gb300", 72),
    (r"b300", "b300", 8),
    (r"mi325", "mi325x", 8),
    (r"mi355", "mi355x", 8),
    (r"tpu.*v4|\bv4", "tpu-v4", 4096),
    (r"v5p", "tpu-v5p", 8960),
    (r"v5e|v5 ?lite", "tpu-v5e", 256),
    (r"v6e|trillium", "tpu-v6e", 256),
    (r"tpu.*7|ironwood", "tpu-v7x", 9216),
    (r"h20\b", "h20", 8),
    (r"910b|910.?pro.?b|ascend.?a2|atlas.*a2", "910b", 8),
    (r"910|ascend|atlas", "910a", 8),
    (r"a100.*40", "a100-40g", 8),
    (r"a100", "a100-80g", 8),
    (r"a800", "a800", 8),
    (r"(?<!bi[-_ ])v100", "v100", 8),
    (r"h200|gh200", "h200", 8),
    (r"h800", "h800", 8),
    (r"h100", "h100", 8),
    (r"b200", "b200", 8),
    (r"mi300|mi308", "mi300x", 8),
)

# pattern, name, 16-bit and 8-bit TFLOP/s, GB/s of memory, GiB, devices that share a fast domain,
# GB/s inside it, GB/s of a port; before the presets, as their patterns are the narrower ones
_OTHERS = (
    # HGX B100 in NVIDIA's Blackwell architecture brief
    (r"\bb100", "NVIDIA B100", 1750, 3500, 8000, 180, 8, 900, 50),
    # NVIDIA V100 data sheet: 16 GB, and PCIe
    (r"v100.*pcie.*16|v100.*16.*pcie", "NVIDIA V100 PCIe 16GB", 112, 112, 900, 16, 8, 15.8, 12.5),
    (r"v100.*pcie", "NVIDIA V100 PCIe", 112, 112, 900, 32, 8, 15.8, 12.5),
    (r"v100.*\b16 ?g", "NVIDIA V100 16GB", 125, 125, 900, 16, 8, 150, 6.25),
    # NVIDIA H100 data sheet, PCIe and NVL
    (r"h[18]00.*pcie", "NVIDIA H100 PCIe", 756, 1513, 2039, 80, 8, 63, 25),
    (r"h100.*nvl\b", "NVIDIA H100 NVL", 835, 1671, 3938, 94, 8, 63, 25),
    # NVIDIA A100 data sheet, PCIe
    (r"a[18]00.*pcie.*40|a[18]00.*40.*pcie", "NVIDIA A100 PCIe 40GB", 312, 312, 1555, 40, 8, 31.5,
     25),
    (r"a[18]00.*pcie", "NVIDIA A100 PCIe", 312, 312, 1935, 80, 8, 31.5, 25),
    # as A100 with 8 links of 25 GB/s, resellers' data sheets
    (r"a800.*40", "NVIDIA A800 40GB", 312, 312, 1555, 40, 8, 200, 25),
    # AMD Instinct data sheets; of an MI250X one of two dies is a device
    (r"mi210", "AMD MI210", 181, 181, 1638, 64, 8, 31.5, 12.5),
    (r"mi250", "AMD MI250X", 191.5, 191.5, 1638, 64, 8, 100, 12.5),
    (r"mi350", "AMD MI350X", 2306.9, 4613.7, 8000, 288, 8, 537, 50),
    # Google Cloud TPU system architecture pages; a pod is one fast domain
    (r"tpu.*v2", "Google TPU v2", 45, 45, 700, 16, 512, 62, 12.5),
    (r"tpu.*v3", "Google TPU v3", 123, 123, 900, 32, 1024, 70, 12.5),
    # AWS Neuron documentation, Trainium and Trainium2 architecture; EC2 Trn1 and Trn2 pages
    (r"trainium ?2|trn2", "AWS Trainium2", 667, 1299, 2900, 96, 16, 320, 25),
    (r"trainium|trn1", "AWS Trainium", 190, 190, 820, 32, 16, 192, 6.25),
    # Intel Gaudi 2 and 3 white papers: 21 ports of 12.5 and of 25 GB/s inside, 3 outside
    (r"gaudi ?-?3", "Intel Gaudi 3", 1678, 1678, 3700, 128, 8, 525, 75),
    (r"gaudi|hl-?225", "Intel Gaudi 2", 432, 865, 2450, 96, 8, 262.5, 37.5),
    # Huawei CloudMatrix384 (arXiv:2506.12708): a package of two dies
    (r"910c|ascend.?a3|atlas.*a3", "Huawei Ascend 910C", 752, 1504, 3200, 128, 384, 196, 50),
    # bins of `costmodel/meshwright_costmodel/devices/910b.json`
    (r"910b1", "Huawei Ascend 910B1", 373.9, 747.8, 1600, 64, 8, 196, 25),
    (r"910b2", "Huawei Ascend 910B2", 353.9, 707.8, 1600, 64, 8, 196, 25),
    (r"910b4", "Huawei Ascend 910B4", 245.8, 491.5, 800, 32, 8, 196, 25),
    # NVIDIA H20-3e (reseller data sheets), with the memory of an H200
    (r"h20-?3e|h20\b.*141", "NVIDIA H20-3e", 148, 296, 4800, 141e9 / GIB, 8, 450, 50),
    # NVIDIA data sheets of A10, A30, A40, RTX A6000, RTX 6000 Ada, L4, L20, L40, L40S, T4: PCIe
    (r"a10g?\b", "NVIDIA A10", 125, 125, 600, 24, 8, 31.5, 12.5),
    (r"a30\b", "NVIDIA A30", 165, 165, 933, 24, 8, 31.5, 12.5),
    (r"a40\b", "NVIDIA A40", 149.7, 149.7, 696, 48, 8, 31.5, 12.5),
    (r"a6000", "NVIDIA RTX A6000", 154.8, 154.8, 768, 48, 8, 31.5, 12.5),
    (r"6000.?ada", "NVIDIA RTX 6000 Ada", 364, 728, 960, 48, 8, 31.5, 12.5),
    (r"\bl4\b", "NVIDIA L4", 121, 242, 300, 24, 8, 31.5, 12.5),
    (r"\bl20\b", "NVIDIA L20", 119.5, 239, 864, 48, 8, 31.5, 25),
    (r"l40s", "NVIDIA L40S", 362, 733, 864, 48, 8, 31.5, 25),
    (r"\bl40\b", "NVIDIA L40", 181, 362, 864, 48, 8, 31.5, 25),
    (r"\bt4\b", "NVIDIA T4", 65, 130, 320, 16, 4, 15.8, 3.1),
    # NVIDIA Ampere GA102, Ada and RTX Blackwell architecture white papers: float32 accumulation
    (r"5090", "NVIDIA RTX 5090", 209.5, 419, 1792, 32, 8, 63, 12.5),
    (r"4090", "NVIDIA RTX 4090", 165.2, 330.3, 1008, 24, 8, 31.5, 12.5),
    (r"3090", "NVIDIA RTX 3090", 71, 142, 936, 24, 8, 31.5, 12.5),
)  # fmt: skip

# published: flash-attention's README needs Ampere or newer
_WITHOUT_FLASH = re.compile(r"v100|\bt4\b", re.IGNORECASE)
_WITHOUT_TF32 = re.compile(r"v100|\bt4\b|910", re.IGNORECASE)


def known_device(name: str) -> KnownDevice | None:
    """The device that a table calls `name`; None for a name that says nothing.

    Raises Unavailable without the presets of meshwright-server.
    """
    wanted = name.lower()
    for pattern, called, plain, eight, memory, gib, per_node, inside, between in _OTHERS:
        if re.search(pattern, wanted):
            device = _device(called, plain * TERA, eight * TERA, memory * GB, gib * GIB)
            has_flash = not _WITHOUT_FLASH.search(called)
            return KnownDevice(device, per_node, inside * GB, between * GB, "", has_flash)
    for pattern, called, domain in _PRESETS:
        if re.search(pattern, wanted):
            return _of_preset(called, domain)
    return None


def device_of_peak(name: str, flops_per_s: float, memory_bytes: float) -> KnownDevice:
    """A device of which only the peak of 16-bit products and the memory are known.

    It has the links of the H100's server.
    """
    device = _device(name, flops_per_s, flops_per_s, flops_per_s / FLOPS_A_BYTE, memory_bytes)
    like = _of_preset("h100", ANY_NODE)
    return KnownDevice(device, ANY_NODE, like.inside_bytes_per_s, like.between_bytes_per_s)


def _device(
    name: str, plain: float, eight_bit: float, memory_bytes_per_s: float, memory_bytes: float
) -> Device:
    rates = {"float32": plain / 2, "float16": plain, "bfloat16": plain}
    if eight_bit > plain:
        rates["float8_e4m3"] = eight_bit
    return Device(
        name=name, memory_bytes=round(memory_bytes), memory_bytes_per_s=memory_bytes_per_s,
        flops_per_s=rates,
    )  # fmt: skip


@cache
def _of_preset(called: str, domain: int) -> KnownDevice:
    server = preset(f"{called}-2x8")
    outer, *inner = server.levels
    device = server.device
    plain = max(device.peak_flops_per_s("bfloat16"), device.peak_flops_per_s("float16"))
    if not _WITHOUT_TF32.search(device.name):
        # training in float32 multiplies in TF32 where devices have it
        rates = {**device.flops_per_s, "float32": plain / 2}
        device = device.model_copy(update={"flops_per_s": rates})
    return KnownDevice(
        device, domain, inner[-1].link.device_bytes_per_s, outer.link.device_bytes_per_s,
        called, not _WITHOUT_FLASH.search(called),
    )  # fmt: skip
