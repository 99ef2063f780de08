"""Rules of ops that make values without inputs, or from inputs that are whole on all devices."""

from __future__ import annotations

from meshwright_solver.rules.op_knowledge import Builder, Known, RuleInputs, known, names


def _whole(position: int, rank: int) -> str:
    return " ".join(f"w{position}_{d}!" for d in range(rank))


def make(ports: RuleInputs) -> Known:
    """Any device can make its part; a random op draws by place, not by device."""
    rank = len(ports.outputs[0])
    inputs = ", ".join(_whole(i, len(shape)) for i, shape in enumerate(ports.inputs))
    return known(f"{inputs} -> {' '.join(names('d', rank))}", "memory", saves_inputs=(), flops=0)


def random_gamma(ports: RuleInputs) -> Known:
    """Samples for every element of the parameters, whose dims are the last ones."""
    out = names("d", len(ports.outputs[0]))
    terms = [
        " ".join(
            "1" if size == 1 and full != 1 else name
            for name, size, full in zip(
                out[len(out) - len(shape) :],
                shape,
                ports.outputs[0][len(out) - len(shape) :],
                strict=True,
            )
        )
        for shape in ports.inputs
    ]
    return known(f"{', '.join(terms)} -> {' '.join(out)}", "memory", saves_inputs=(), flops=0)


CREATION: dict[str, Builder] = {
    "arange": make,
    "full": make,
    "linspace": make,
    "random_normal": make,
    "random_uniform": make,
    "random_gamma": random_gamma,
}
