"""Rules of Fourier and cosine transforms.

A complex tensor has real and imaginary parts in a last dim of two. The transformed dims are whole
on every device, all others are free; every transform is linear.
"""

from __future__ import annotations

from math import log2, prod

from meshwright_solver.rules.op_knowledge import Builder, Known, RuleInputs, known, names


def _transform(rank: int, ports: RuleInputs, *, pair_in: bool, pair_out: bool) -> Known:
    dims = ports.attrs.get("dims")
    input_shape = ports.inputs[0][:rank]
    output_shape = ports.outputs[0][:rank]
    touched = {int(d) % rank for d in (range(rank) if dims is None else dims)}
    factors = names("d", rank)
    left = [
        f if i not in touched else f"{f}!" if input_shape[i] == output_shape[i] else f"u{i}!"
        for i, f in enumerate(factors)
    ]
    right = [
        f if i not in touched else f"{f}!" if input_shape[i] == output_shape[i] else f"w{i}!"
        for i, f in enumerate(factors)
    ]
    left += ["c!"] * pair_in
    right += ["c!"] * pair_out
    length = prod(max(input_shape[i], output_shape[i]) for i in touched)
    # published: 5 n log2 n for a complex transform of n points (FFTW's own measure)
    flops = int(5 * prod(ports.outputs[0]) * log2(max(2, length)))
    return known(
        f"{' '.join(left)} -> {' '.join(right)}",
        "memory",
        linear=((0,),),
        saves_inputs=(),
        flops=flops,
    )


def _transform_builder(pair_in: bool, pair_out: bool) -> Builder:
    def build(ports: RuleInputs) -> Known:
        rank = len(ports.inputs[0]) - pair_in
        if len(ports.outputs[0]) - pair_out != rank:
            raise ValueError("a complex tensor has a last dim of two, a real one has not")
        return _transform(rank, ports, pair_in=pair_in, pair_out=pair_out)

    return build


def fft(ports: RuleInputs) -> Known:
    """Complex to complex; a real input has one dim less."""
    rank = len(ports.outputs[0]) - 1
    pair_in = len(ports.inputs[0]) == rank + 1
    if not pair_in and len(ports.inputs[0]) != rank:
        raise ValueError("the output is complex: it has a last dim of two")
    return _transform(rank, ports, pair_in=pair_in, pair_out=True)


SPECTRAL: dict[str, Builder] = {
    "fft": fft,
    "rfft": _transform_builder(False, True),
    "irfft": _transform_builder(True, False),
    "hfft": _transform_builder(True, False),
    "ihfft": _transform_builder(False, True),
    "dct": _transform_builder(False, False),
}
