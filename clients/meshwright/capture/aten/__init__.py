"""Conversion of ATen calls to nodes of canonical kinds; unknown calls keep their ATen name."""

from meshwright.capture.aten import (
    creation,
    einsum,
    elementwise,
    layers,
    recurrent,
    reduction,
    shape,
)
from meshwright.capture.aten.call import AtenCall, Converter, dtype_name

CONVERTERS: dict[str, Converter] = {
    **elementwise.CONVERTERS,
    **reduction.CONVERTERS,
    **shape.CONVERTERS,
    **creation.CONVERTERS,
    **layers.CONVERTERS,
    **recurrent.CONVERTERS,
    **einsum.CONVERTERS,
}

__all__ = ["CONVERTERS", "AtenCall", "Converter", "dtype_name"]
