"""Rules of opaque ops: only the dependence between their elements is known."""

from __future__ import annotations

from meshwright_solver.rules.op_knowledge import Builder, Known, RuleInputs, Shape, known


def _whole(prefix: str, shape: Shape, start: int = 0) -> list[str]:
    return [f"{prefix}{d}!" for d in range(start, len(shape))]


def stand_alone(ports: RuleInputs) -> Known:
    """Inputs and outputs are whole on every device."""
    input_terms = ", ".join(" ".join(_whole(f"u{i}_", s)) for i, s in enumerate(ports.inputs))
    output_terms = ", ".join(" ".join(_whole(f"w{i}_", s)) for i, s in enumerate(ports.outputs))
    return known(f"{input_terms} -> {output_terms}", "memory")


def batch_parallel(ports: RuleInputs) -> Known:
    """The samples of the first dim are independent; scalars are the same for all."""
    sizes = {shape[0] for shape in (*ports.inputs, *ports.outputs) if shape}
    if len(sizes) != 1 or not all(ports.outputs):
        raise ValueError("all inputs and outputs have the batch as their first dim")
    input_terms = ", ".join(
        " ".join(["b", *_whole(f"u{i}_", s, 1)]) if s else "" for i, s in enumerate(ports.inputs)
    )
    output_terms = ", ".join(
        " ".join(["b", *_whole(f"w{i}_", s, 1)]) for i, s in enumerate(ports.outputs)
    )
    return known(f"{input_terms} -> {output_terms}", "memory")


def get_next(ports: RuleInputs) -> Known:
    """Batches of a data set: any device can load its samples where all outputs have as many."""
    sizes = {shape[0] for shape in ports.outputs if shape}
    if len(sizes) != 1 or not all(ports.outputs):
        return stand_alone(ports)
    output_terms = ", ".join(
        " ".join(["b", *_whole(f"w{i}_", s, 1)]) for i, s in enumerate(ports.outputs)
    )
    input_terms = ", ".join(" ".join(_whole(f"u{i}_", s)) for i, s in enumerate(ports.inputs))
    return known(f"{input_terms} -> {output_terms}", "memory", saves_inputs=(), flops=0)


def unique(_: RuleInputs) -> Known:
    """The distinct values of the whole vector, and the index of each element's value."""
    return known("n! -> u!, n!", "memory", saves_inputs=(), flops=0)


def candidate_sampler(_: RuleInputs) -> Known:
    """Sampled classes, with the expected counts of true and sampled ones, on every device."""
    return known("b! t! -> s!, b! t!, s!", "memory", saves_inputs=(), flops=0)


STRUCTURE: dict[str, Builder] = {
    "stand_alone": stand_alone,
    "custom": stand_alone,
    "batch_parallel": batch_parallel,
    "get_next": get_next,
    "unique": unique,
    "candidate_sampler": candidate_sampler,
}
