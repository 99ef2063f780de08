"""Curves of round numbers."""

from __future__ import annotations

from meshwright.schema.curves import AttentionCurve, Constant, DeviceCurves, ProductCurve, Protocol


def constant(value: float) -> Constant:
    return Constant(value=value, spread=0, source="round numbers")


def protocol(name: str, start_ns: float, step: float, share: float) -> Protocol:
    """The same between nodes as inside, but for a start of eleven times as long."""
    return Protocol(
        name=name,
        start_ns=constant(start_ns),
        start_between_ns=constant(10 * start_ns),
        step=constant(step),
        step_between=constant(step),
        share=constant(share),
        share_between=constant(share),
    )


def round_curves(
    device: str = "any", flops_per_s: float = 1e14, in_switch: float | None = None
) -> DeviceCurves:
    """Quick and slow messages at a quarter of the bandwidth, large ones at all of it."""
    return DeviceCurves(
        device=device,
        flops_per_s=flops_per_s,
        product=ProductCurve(
            share=constant(0.5),
            eight_bit=constant(0.8),
            half_tile=constant(100),
            fill=constant(1e6),
            half_depth=constant(50),
            unhidden=constant(0.25),
        ),
        attention=AttentionCurve(
            share=constant(0.4),
            backward=constant(0.5),
            half_head=constant(64),
            half_rows=constant(300),
        ),
        memory=constant(0.5),
        protocols=(protocol("quick", 100, 0.5, 0.25), protocol("large", 1000, 2, 1.0)),
        in_switch=None if in_switch is None else constant(in_switch),
    )
