"""A plan's stage on a scaled-down problem and mesh: the same axes on the same slots."""

from __future__ import annotations

from meshwright.schema import Dim, Layout, LayoutPair, Mesh, OwnStep, Stage, SubDim
from meshwright_solver.problem.problem import Problem
from meshwright_solver.verification.execution.scaled_mesh import scaled_mesh


def scaled_stage(stage: Stage, small: Problem) -> Stage:
    """The stage with all layouts at the sizes and spans of the small problem."""
    mesh = scaled_mesh(stage)
    sizes = tuple(axis.size for axis in mesh.axes)

    def span(tensor: str, k: int) -> int | None:
        return small.uneven.span((tensor, k), sizes)

    def layout(tensor: str, old: Layout) -> Layout:
        info = small.tensors[tensor]
        dims = []
        for d, dim in enumerate(old.dims):
            slots = [(k, slot.size) for k, slot in enumerate(info.slots) if slot.dim == d]
            parts = tuple(
                SubDim(
                    size=size,
                    axes=part.axes,
                    span=span(tensor, k) if part.axes else None,
                    chunks=info.chunks.get(k, ()) if part.axes else (),
                )
                for (k, size), part in zip(slots or [(-1, 1)], dim.parts, strict=True)
            )
            dims.append(Dim(parts=parts, segments=info.segments.get(d, ())))
        is_uneven = any(part.span is not None for dim in dims for part in dim.parts)
        return Layout(
            dims=tuple(dims),
            partial=old.partial,
            padded=is_uneven and small.uneven.padded,
        )

    def pair(tensor: str, old: LayoutPair | None) -> LayoutPair | None:
        if old is None:
            return None
        gradient = None if old.gradient is None else layout(tensor, old.gradient)
        return LayoutPair(value=layout(tensor, old.value), gradient=gradient)

    return stage.model_copy(
        update={
            "mesh": mesh,
            "ops": tuple(
                op.model_copy(
                    update={
                        "own_steps": tuple(_scale_ring(s, stage.mesh, mesh) for s in op.own_steps)
                    }
                )
                for op in stage.ops
            ),
            "tensors": tuple(
                t.model_copy(
                    update={"rest": pair(t.tensor, t.rest), "read": pair(t.tensor, t.read)}
                )
                for t in stage.tensors
            ),
            "parameters": tuple(
                p.model_copy(
                    update={
                        name: None if old is None else layout(p.tensor, old)
                        for name, old in (
                            ("value", p.value),
                            ("gradient", p.gradient),
                            ("optimizer", p.optimizer),
                        )
                    }
                    | {"owner": {axis: at % mesh.size((axis,)) for axis, at in p.owner.items()}}
                )
                for p in stage.parameters
            ),
            "redistributions": tuple(
                r.model_copy(
                    update={
                        name: tuple(
                            step.model_copy(update={"to": layout(r.tensor, step.to)})
                            for step in getattr(r, name)
                        )
                        for name in ("forward", "backward", "per_step")
                    }
                )
                for r in stage.redistributions
            ),
        }
    )


def _scale_ring(step: OwnStep, before: Mesh, after: Mesh) -> OwnStep:
    """Keep the number of devices that a ring leaves out, zero for a full ring."""
    if step.what != "ring":
        return step
    missing = before.size(step.axes) - 1 - step.times
    times = after.size(step.axes) - 1 - missing
    return step.model_copy(update={"times": max(0, times)})
