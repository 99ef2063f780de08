"""Precision recipes: the dtype of low-precision products, and what a quantization moves.

A quantization writes two copies of 8 bits, one for each product that reads the tensor along another
dim. It reads the tensor once, or twice where one scale for the whole tensor has to be found first.
`meshwright_solver.problem.low_precision` says which products have a recipe.
"""

from __future__ import annotations

from collections.abc import Mapping

from meshwright.schema import Device, Setup, SetupError
from meshwright.schema.setup import Precision

EIGHT_BIT = "float8_e4m3"
SHARE = 0.5  # of the bytes of a 16-bit tensor
# bytes that a quantization moves for an element of 16 bits: two read, once or twice, and one
# written in each of two copies
_QUANTIZED_BYTES: Mapping[Precision, float] = {
    "fp8_tensorwise": 6.0,
    "fp8_blockwise": 4.0,
    "mxfp8": 4.0,
}


def quantized_bytes(precision: Precision) -> float:
    """Bytes that a quantization moves for one element; 0 without a recipe."""
    return _QUANTIZED_BYTES.get(precision, 0.0)


def check_precision(setup: Setup, device: Device) -> None:
    """Raise SetupError where the device has no rate for products of 8 bits."""
    if setup.precision != "graph" and EIGHT_BIT not in device.flops_per_s:
        raise SetupError(
            f"precision {setup.precision}: {device.name} multiplies no {EIGHT_BIT}, by the "
            f"topology's flops_per_s ({', '.join(device.flops_per_s)}). Use precision graph",
            pointer="/precision",
        )
