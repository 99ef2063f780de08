"""Rules of ops of which nothing is known but how far their elements depend on each other."""

from __future__ import annotations

from meshwright_solver.rules.op_knowledge import Builder, Known, RuleInputs, Shape, known


def _whole(prefix: str, shape: Shape, start: int = 0) -> list[str]:
    return [f"{prefix}{d}!" for d in range(start, len(shape))]


def stand_alone(ports: RuleInputs) -> Known:
    """Whole on every device."""
    given = ", ".join(" ".join(_whole(f"u{i}_", s)) for i, s in enumerate(ports.inputs))
    made = ", ".join(" ".join(_whole(f"w{i}_", s)) for i, s in enumerate(ports.outputs))
    return known(f"{given} -> {made}", "memory")


def batch_parallel(ports: RuleInputs) -> Known:
    """The samples of the first dim do not depend on each other; scalars are the same for all."""
    sizes = {shape[0] for shape in (*ports.inputs, *ports.outputs) if shape}
    if len(sizes) != 1 or not all(ports.outputs):
        raise ValueError("all inputs and outputs have the batch as their first dim")
    given = ", ".join(
        " ".join(["b", *_whole(f"u{i}_", s, 1)]) if s else "" for i, s in enumerate(ports.inputs)
    )
    made = ", ".join(" ".join(["b", *_whole(f"w{i}_", s, 1)]) for i, s in enumerate(ports.outputs))
    return known(f"{given} -> {made}", "memory")


def get_next(ports: RuleInputs) -> Known:
    """Batches of a data set: any device can load its samples where all outputs have as many."""
    sizes = {shape[0] for shape in ports.outputs if shape}
    if len(sizes) != 1 or not all(ports.outputs):
        return stand_alone(ports)
    made = ", ".join(" ".join(["b", *_whole(f"w{i}_", s, 1)]) for i, s in enumerate(ports.outputs))
    given = ", ".join(" ".join(_whole(f"u{i}_", s)) for i, s in enumerate(ports.inputs))
    return known(f"{given} -> {made}", "memory", saves_inputs=(), flops=0)


def unique(_: RuleInputs) -> Known:
    """Values of the whole vector, and which of them each element is."""
    return known("n! -> u!, n!", "memory", saves_inputs=(), flops=0)


def candidate_sampler(_: RuleInputs) -> Known:
    """Sampled classes and how often the true and the sampled ones are expected: on every device."""
    return known("b! t! -> s!, b! t!, s!", "memory", saves_inputs=(), flops=0)


STRUCTURE: dict[str, Builder] = {
    "stand_alone": stand_alone,
    "custom": stand_alone,
    "batch_parallel": batch_parallel,
    "get_next": get_next,
    "unique": unique,
    "candidate_sampler": candidate_sampler,
}
