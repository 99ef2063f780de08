"""Anchoring of a calibration to measured steps of a cluster by one constant.

A measured step shows the error of a prediction, but not its cause. Therefore all times are scaled
by r, the median ratio of measured to predicted times: shares of peak are divided by r, and launch
times and starts of protocols are multiplied by r. Latencies of links are not part of a calibration
and do not change. A share is at most 1, which limits the correction for clusters faster than their
data sheets.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from meshwright.schema import Calibration, InvalidInput
from meshwright.schema.calibration import Anchored, Efficiency
from meshwright.schema.curves import Constant, DeviceCurves


def anchored(calibration: Calibration, ratios: Sequence[float], stack: str) -> Calibration:
    """The anchored calibration for a stack.

    `ratios` are measured over predicted step times of plans of this calibration. Raises
    InvalidInput for a calibration that is anchored already.
    """
    if calibration.anchored is not None:
        raise InvalidInput(
            f"the calibration {calibration.id} is anchored already. Observe plans of its base "
            f"calibration, {calibration.anchored.calibration}"
        )
    ratio = statistics.median(ratios)
    shares = {
        name: min(1.0, getattr(calibration.efficiency, name) / ratio)
        for name in Efficiency.model_fields
    }
    suffix = f" for {stack}" if stack else ""
    return calibration.model_copy(
        update={
            "name": f"{calibration.name}, anchored{suffix}"[:500],
            "source": f"{calibration.source} All of it times {ratio:.4g}, the median of "
            f"{len(ratios)} measured steps over the predicted ones{suffix}.",
            "efficiency": calibration.efficiency.model_copy(update=shares),
            "link_efficiency": min(1.0, calibration.link_efficiency / ratio),
            "launch_ns": round(calibration.launch_ns * ratio),
            "curves": tuple(_scaled_curves(curves, ratio) for curves in calibration.curves),
            "anchored": Anchored(
                calibration=calibration.id, ratio=ratio, observations=len(ratios), stack=stack
            ),
        }
    )


def _scaled_curves(curves: DeviceCurves, ratio: float) -> DeviceCurves:
    def share(constant: Constant) -> Constant:
        return constant.like(value=min(1.0, constant.value / ratio))

    def start(constant: Constant) -> Constant:
        return constant.like(value=constant.value * ratio)

    return curves.like(
        product=curves.product.like(share=share(curves.product.share)),
        attention=curves.attention.like(share=share(curves.attention.share)),
        memory=share(curves.memory),
        in_switch=None if curves.in_switch is None else share(curves.in_switch),
        protocols=tuple(
            protocol.like(
                start_ns=start(protocol.start_ns),
                start_between_ns=start(protocol.start_between_ns),
                share=share(protocol.share),
                share_between=share(protocol.share_between),
            )
            for protocol in curves.protocols
        ),
    )
