"""A calibration corrected by steps that a cluster took: one constant for all of it.

One measured step says how far a prediction is off, not where. So everything takes r times as long,
r the median of measured over predicted: shares of peak are divided by r, launches and the starts of
protocols multiplied. What calibrations do not know, the latencies of links, stays; a share stays at
most 1, so that a cluster faster than its data sheet says is followed only so far.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from meshwright.schema import Calibration, InvalidInput
from meshwright.schema.calibration import Anchored, Efficiency
from meshwright.schema.curves import Constant, DeviceCurves


def anchored(own: Calibration, ratios: Sequence[float], stack: str) -> Calibration:
    """The calibration for a stack; ratios: measured over predicted steps of plans made with it.

    Raises InvalidInput for a calibration that is anchored already: its plans say nothing of it.
    """
    if own.anchored is not None:
        raise InvalidInput(
            f"the calibration {own.id} is anchored itself; observe plans of the one that it is of, "
            f"{own.anchored.calibration}"
        )
    ratio = statistics.median(ratios)
    shares = {
        name: min(1.0, getattr(own.efficiency, name) / ratio) for name in Efficiency.model_fields
    }
    of = f" for {stack}" if stack else ""
    return own.model_copy(
        update={
            "name": f"{own.name}, anchored{of}"[:500],
            "source": f"{own.source} All of it times {ratio:.4g}, the median of {len(ratios)} "
            f"measured steps over the predicted ones{of}.",
            "efficiency": own.efficiency.model_copy(update=shares),
            "link_efficiency": min(1.0, own.link_efficiency / ratio),
            "launch_ns": round(own.launch_ns * ratio),
            "curves": tuple(_slower(curves, ratio) for curves in own.curves),
            "anchored": Anchored(
                calibration=own.id, ratio=ratio, observations=len(ratios), stack=stack
            ),
        }
    )


def _slower(curves: DeviceCurves, ratio: float) -> DeviceCurves:
    def share(own: Constant) -> Constant:
        return own.like(value=min(1.0, own.value / ratio))

    def start(own: Constant) -> Constant:
        return own.like(value=own.value * ratio)

    return curves.like(
        product=curves.product.like(share=share(curves.product.share)),
        attention=curves.attention.like(share=share(curves.attention.share)),
        memory=share(curves.memory),
        in_switch=None if curves.in_switch is None else share(curves.in_switch),
        protocols=tuple(
            own.like(
                start_ns=start(own.start_ns),
                start_between_ns=start(own.start_between_ns),
                share=share(own.share),
                share_between=share(own.share_between),
            )
            for own in curves.protocols
        ),
    )
