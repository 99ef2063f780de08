"""Numbers that a program computes from sizes as fractions, which have no symbolic form.

    x * (1 / n)     -> x / n, with the integer n
    x * float(n)    -> x * n, with the integer n

of a symbolic size n. A number such as n ** -0.5 stays that of the trace, with a note.
"""

from __future__ import annotations

from meshwright.capture.program import Node, Program

# chosen: a multiple of a smaller prime is often a number of the model
_LEAST_PRIME = 1000
_LARGEST = 1e15  # chosen: near the largest integers that a double holds
_TOLERANCE = 1e-12  # of a double that was rounded a few times


def restore_size_numbers(program: Program) -> None:
    """Convert fractions of symbolic sizes to the sizes, and note those that cannot be converted."""
    for node in program.nodes:
        # an integer makes no fraction of integers
        if not any("float" in value.dtype for value in node.inputs):
            continue
        for key, value in node.attrs.items():
            if not isinstance(value, float) or not 1 / _LARGEST < abs(value) < _LARGEST:
                continue
            if key == "other" and (size := _size(program, value)) is not None:
                node.attrs = {**node.attrs, key: size}
            elif key == "other" and node.kind == "mul" and (size := _size(program, 1 / value)):
                node.kind, node.attrs = "div", {**node.attrs, key: size}
            elif any(_size(program, number) for number in (1 / value, value**2, value**-2)):
                _add_note(program, node, value)


def _size(program: Program, number: float) -> int | None:
    """The integer that a number is, if it is a multiple of the prime of a symbol."""
    size = round(number)
    is_symbolic = any(
        prime >= _LEAST_PRIME and size and size % prime == 0
        for prime in program.witness.primes.values()
    )
    return size if is_symbolic and abs(number - size) <= _TOLERANCE * abs(size) else None


def _add_note(program: Program, node: Node, value: float) -> None:
    note = (
        f"{node.module or 'the module'}: {node.kind} has a number that follows from a size, "
        f"{value:.6g} at the traced sizes, which the graph keeps. Compute it by tensor operations"
    )
    if note not in program.notes:
        program.notes.append(note)
