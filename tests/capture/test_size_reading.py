"""A captured graph holds at sizes that were not traced, or says at which it holds."""

import pytest
import torch
from torch.nn.functional import cross_entropy, pad
from torch.nn.functional import scaled_dot_product_attention as attention

from meshwright.capture import capture_module, interpret
from meshwright.schema import GraphError

BATCH, WIDTH = 3, 8


def inputs(sizes, device="meta"):
    return {"x": torch.randn(sizes["batch"], sizes["seq"], WIDTH, device=device)}


class Module(torch.nn.Module):
    """A parameter, and a body of x [batch, seq, width] and the rows [seq, width]."""

    def __init__(self, body):
        super().__init__()
        self.up, self.body = torch.nn.Linear(WIDTH, WIDTH), body

    def forward(self, x):
        return self.body(self.up(x)).square().mean()


def captured(body, *, batch=64, seq=18):
    return capture_module(Module(body), inputs, symbols={"batch": batch, "seq": seq}, name="case")


def masked(width):
    """Attention with a mask of distances below a number that follows from the length."""

    def body(x):
        places = torch.arange(x.shape[1])
        distance = places[:, None] - places
        mask = (distance >= 0) & (distance < width(x.shape[1]))
        return attention(x, x, x, attn_mask=mask)

    return body


def first_half(x):
    is_first = torch.arange(x.shape[1]) < x.shape[1] // 2
    return torch.where(is_first[:, None], x, 2 * x)


def rounded_up(x):
    length = x.shape[1]
    x = pad(x, (0, 0, 0, (length + 7) // 8 * 8 - length))
    return x.reshape(x.shape[0], -1, 8, WIDTH).mean(2)


def in_pairs(x):
    usable = x.shape[1] // 2 * 2
    return x[:, :usable].reshape(x.shape[0] * (usable // 2), 2 * WIDTH)


BODIES = {
    "half": first_half,
    "half, rounded up": lambda x: x[:, : (x.shape[1] + 1) // 2],
    "but the last": lambda x: torch.where(torch.arange(x.shape[1])[:, None] < x.shape[1] - 1, x, 0),
    "window of a quarter": masked(lambda length: length // 4),
    "window but one": masked(lambda length: length - 1),
    "convolution": lambda x: torch.nn.functional.avg_pool1d(x.mT, 3, stride=2, padding=1),
    "pairs": in_pairs,
    "with 33 more": lambda x: torch.cat([x, x.new_ones(x.shape[0], 33, WIDTH)], 1),
    "largest half": lambda x: x.topk(x.shape[1] // 2, dim=1).values,
    "limit of a clamp": lambda x: torch.arange(2 * x.shape[1]).clamp(max=x.shape[1]) * x.sum(),
    "filled with the length": lambda x: x * torch.full((1,), x.shape[1]),
}


def halves(x):
    return torch.cat(x.chunk(2, 1), 2) if x.shape[1] % 2 == 0 else x


def check(graph, body, sizes):
    module, values = Module(body), inputs(sizes, "cpu")
    given = {**dict(module.named_parameters()), **values}
    symbols = {name: sizes[name] for name in graph.symbols}
    torch.testing.assert_close(
        interpret(graph, given, symbols=symbols)[graph.loss], module(**values)
    )


@pytest.mark.parametrize("name", BODIES)
def test_a_number_of_the_sequence_holds_at_other_lengths(name):
    graph = captured(BODIES[name])
    assert graph.notes == ()
    for seq in (18, 23, 40):
        check(graph, BODIES[name], {"batch": BATCH, "seq": seq})


@pytest.mark.parametrize("body", [halves, rounded_up, lambda x: x * x.shape[1] ** -0.5])
def test_the_sequence_keeps_its_value_where_the_graph_holds_at_it_alone(body):
    graph = captured(body)
    assert graph.symbols == {"batch": 64}
    (note,) = graph.notes
    assert f"{__file__}:" in note
    assert note.endswith("the graph holds at seq = 18 alone")
    check(graph, body, {"batch": BATCH, "seq": 18})


def test_a_number_of_the_batch_holds_at_other_batches():
    def body(x):
        return x[: x.shape[0] // 2] - x[x.shape[0] - x.shape[0] // 2 :]

    graph = captured(body)
    for batch in (4, 7):
        check(graph, body, {"batch": batch, "seq": 5})


def test_a_kernel_that_follows_from_the_length_is_refused():
    with pytest.raises(GraphError, match="the kernel of 'avg_pool' follows from a symbol"):
        captured(lambda x: torch.nn.functional.avg_pool1d(x.mT, x.shape[1]))


def test_a_way_that_depends_on_the_batch_is_refused():
    def body(x):
        return x * 2 if x.shape[0] > 1000 else x

    with pytest.raises(GraphError, match=r"depends on the batch .* at .*test_size_reading"):
        captured(body)


def test_a_number_of_the_model_that_equals_a_quotient_is_told_from_it():
    class Model(Module):
        def __init__(self):
            super().__init__(None)
            self.out = torch.nn.Linear(WIDTH, 4095)  # half of the first prime below 8,192

        def forward(self, x):
            return self.out(self.up(x)[:, : x.shape[1] // 2]).square().mean()

    graph = capture_module(
        Model(), inputs, symbols={"batch": 64, "seq": 18}, limits={"seq": 8192}, name="equal"
    )
    shapes = graph.instantiate({"batch": 2, "seq": 9})
    assert shapes[next(op for op in graph.ops if op.kind == "mean").inputs[0]] == (2, 4, 4095)


def test_a_number_next_to_a_prime_is_no_size():
    # 10,007 is the largest prime for a batch
    graph = captured(lambda x: x / 10_000)
    assert graph.notes == ()
    assert [op.attrs["other"] for op in graph.ops if op.kind == "div"] == [10_000]


def test_labels_that_are_shifted_by_one_stay_symbolic():
    def body(x):
        labels = torch.zeros(x.shape[0], x.shape[1] - 1, dtype=torch.long)
        return cross_entropy(x[:, :-1].flatten(0, 1), labels.flatten())

    graph = captured(body)
    assert graph.notes == ()
    assert graph.symbols == {"batch": 64, "seq": 18}
