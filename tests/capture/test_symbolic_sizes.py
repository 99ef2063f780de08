"""Sizes read off a trace at primes."""

import pytest
import torch

from meshwright.capture import capture_hf, capture_module
from meshwright.capture.symbolic_sizes import Witness
from meshwright.schema import GraphError
from meshwright.schema.sizes import evaluate

WITNESS = Witness({"batch": 10007, "seq": 8179})


@pytest.mark.parametrize(
    ("number", "size"),
    [
        (7, 7),
        (10007, "batch"),
        (4 * 10007, "4*batch"),
        (10007 * 8179, "batch*seq"),
        (2 * 10007 * 8179, "2*batch*seq"),
        (8180, "seq+1"),
        (8178, "seq-1"),
        (10007 * 8180, "batch*(seq+1)"),
        (8182, "seq+3"),
        (2 * 8179 - 1, "2*seq-1"),
        (10007 * (2 * 8179 + 1), "batch*(2*seq+1)"),
        (8188, 8188),
        (128256, 128256),
    ],
)
def test_a_traced_number_is_read_as_a_size(number, size):
    assert WITNESS.size(number) == size
    if isinstance(size, str):
        assert evaluate(size, {"batch": 10007, "seq": 8179}) == number


def test_near_a_small_prime_only_a_shift_by_one_is_told():
    # the width of a head, 768 / 12, is not a sequence less three
    small = Witness({"seq": 67})
    assert [small.size(number) for number in (64, 66, 68)] == [64, "seq-1", "seq+1"]


def test_a_prime_stays_away_from_the_numbers_of_the_model():
    # 8191 is prime, but 8192 would read as seq+1
    assert Witness.choose({"seq": 8192}, [8192]).primes["seq"] == 8179
    # 1000 would read as seq+3 at 997, and at 97 only its neighbors matter
    assert Witness.choose({"seq": 999}, [1000]).primes["seq"] == 991
    assert Witness.choose({"seq": 99}, [100]).primes["seq"] == 97
    assert Witness.choose({"seq": 8192}, []).primes["seq"] == 8191


def test_a_limit_without_a_prime_is_refused():
    with pytest.raises(GraphError, match="'seq'"):
        Witness.choose({"seq": 10}, [])


def test_an_extent_that_no_trace_can_have_gets_a_stand_in():
    witness = Witness({"seq": 61})
    number = witness.stand_in("seq//4")
    assert witness.size(number) == "seq//4"
    assert witness.stand_in("seq//4") == number


def _sized(graph, sizes):
    """The graph with every size in numbers."""
    shapes = graph.instantiate(sizes)

    def plain(value):
        if isinstance(value, list):
            return [plain(item) for item in value]
        if isinstance(value, str) and any(symbol in value for symbol in graph.symbols):
            return evaluate(value, sizes)
        return value

    ops = [
        (op.name, op.kind, op.inputs, op.outputs, {k: plain(v) for k, v in op.attrs.items()})
        for op in graph.ops
    ]
    return shapes, ops, graph.outputs


@pytest.mark.rotating
@pytest.mark.parametrize("family", ["llama", "gpt2", "bert", "mixtral"])
def test_a_graph_at_some_sizes_equals_a_capture_at_those_sizes(family, config, monkeypatch):
    settings = config(family)
    sizes = {"batch": 6, "seq": 8}
    symbolic = capture_hf(settings, batch=64, seq=32)
    monkeypatch.setattr(Witness, "choose", classmethod(lambda *_, **__: Witness(sizes)))
    monkeypatch.setattr(Witness, "size", lambda self, number: self.derived.get(number, number))
    direct = capture_hf(settings, **sizes)
    assert _sized(symbolic, sizes) == _sized(direct, sizes)


def test_a_size_in_an_attribute_stays_symbolic():
    class Module(torch.nn.Module):
        def forward(self, x):
            length = x.shape[1]
            return x[:, 1:].flip(1) + torch.arange(length - 1), x.sum() / (x.shape[0] * length)

    graph = capture_module(
        Module(),
        lambda sizes: [torch.zeros(sizes["batch"], sizes["seq"], device="meta")],
        symbols={"batch": 8, "seq": 100},
        name="sizes",
    )
    attrs = {op.kind: op.attrs for op in graph.ops}
    assert attrs["slice"] == {"dim": 1, "start": 1, "end": "seq", "step": 1}
    assert attrs["arange"]["end"] == "seq-1"
    assert attrs["div"] == {"other": "batch*seq"}
