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

# operators of other libraries may have the same names
_NAMESPACES = frozenset({"aten", "meshwright"})

CONVERTERS: dict[str, Converter] = {
    **elementwise.CONVERTERS,
    **reduction.CONVERTERS,
    **shape.CONVERTERS,
    **creation.CONVERTERS,
    **layers.CONVERTERS,
    **recurrent.CONVERTERS,
    **einsum.CONVERTERS,
}


def converter_of(namespace: str, name: str) -> Converter:
    """The converter of an operator; `AtenCall.unknown` where it has none."""
    known = CONVERTERS.get(name) if namespace in _NAMESPACES else None
    return known or AtenCall.unknown


__all__ = ["CONVERTERS", "AtenCall", "Converter", "converter_of", "dtype_name"]
