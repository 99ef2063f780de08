"""ATen calls -> nodes of canonical kinds. A call that no converter knows keeps its ATen name."""

from meshwright.capture.aten import creation, elementwise, layers, reduction, shape
from meshwright.capture.aten.call import Call, Converter, dtype_name

CONVERTERS: dict[str, Converter] = {
    **elementwise.CONVERTERS,
    **reduction.CONVERTERS,
    **shape.CONVERTERS,
    **creation.CONVERTERS,
    **layers.CONVERTERS,
}

__all__ = ["CONVERTERS", "Call", "Converter", "dtype_name"]
