"""Mixtures of experts, against their own arithmetic."""

from types import MethodType

import pytest
import torch
from torch.nn import functional
from transformers import OlmoeConfig, OlmoeForCausalLM

from meshwright.capture import capture_module, interpret
from meshwright.schema import Graph, Op, Tensor
from tests.capture.architecture import GROUPED


def graph_of(capacity, factor):
    def tensor(name, *shape, dtype="float32", role="activation"):
        return Tensor(name=name, shape=shape, dtype=dtype, role=role)

    return Graph(
        tensors=(
            tensor("x", 1, 4, 2, role="input"),
            tensor("index", 1, 4, 1, dtype="int64", role="input"),
            tensor("weight", 1, 4, 1, role="input"),
            tensor("w", 2, 3, 2, role="parameter"),
            tensor("slots", 2, 1, capacity, 2),
            tensor("grown", 2, 1, capacity, 3),
            tensor("y", 1, 4, 3),
        ),
        ops=(
            Op(
                name="dispatch",
                kind="moe_dispatch",
                inputs=("x", "index"),
                outputs=("slots",),
                attrs={"capacity_factor": factor},
            ),
            Op(
                name="experts",
                kind="expert_matmul",
                inputs=("slots", "w"),
                outputs=("grown",),
                attrs={"weight_layout": "efh"},
            ),
            Op(
                name="combine",
                kind="moe_combine",
                inputs=("grown", "index", "weight"),
                outputs=("y",),
                attrs={"capacity_factor": factor},
            ),
        ),
        outputs=("y",),
    )


def run(index, factor=1.0):
    x = torch.arange(8.0).reshape(1, 4, 2) + 1
    w = torch.randn(2, 3, 2)
    weight = torch.tensor([0.5, 1.0, 2.0, 3.0]).reshape(1, 4, 1)
    index = torch.tensor(index).reshape(1, 4, 1)
    values = {"x": x, "index": index, "weight": weight, "w": w}
    made = interpret(graph_of(2, factor), values)
    each = torch.einsum("bsh,bsfh->bsf", x, w[index[..., 0]]) * weight
    return made, x, each


def test_an_even_split_fills_every_slot():
    made, x, each = run([0, 1, 1, 0])
    # tokens 0 and 3 go to expert 0, tokens 1 and 2 to expert 1, in their order
    torch.testing.assert_close(made["slots"][:, 0], torch.stack([x[0, [0, 3]], x[0, [1, 2]]]))
    torch.testing.assert_close(made["y"], each)


def test_a_token_beyond_a_fixed_capacity_is_dropped():
    made, _, each = run([0, 0, 0, 1], factor=1.25)
    # expert 0 has two slots: its third token finds none
    torch.testing.assert_close(made["y"][:, [0, 1, 3]], each[:, [0, 1, 3]])
    assert (made["y"][:, 2] == 0).all()


def test_experts_without_a_fixed_capacity_drop_nothing():
    made, _, each = run([0, 0, 0, 1])
    torch.testing.assert_close(made["y"], each)


def first_and_next_best(gate, x):
    """A router that masks its first choice for the second: tokens stay in one dim throughout."""
    scores = functional.linear(x.reshape(-1, gate.hidden_dim), gate.weight)
    first = scores.argmax(-1, keepdim=True)
    second = scores.scatter(1, first, float("-inf")).argmax(-1, keepdim=True)
    index = torch.cat([first, second], dim=1)
    return scores, scores.softmax(-1).gather(1, index), index


def first_expert_twice(gate, x):
    """A router that names one expert for both choices, as a table of experts by token may."""
    scores = functional.linear(x.reshape(-1, gate.hidden_dim), gate.weight)
    index = torch.zeros_like(scores[:, :2], dtype=torch.long)
    return scores, scores.softmax(-1).gather(1, index), index


@pytest.mark.parametrize("router", [first_and_next_best, first_expert_twice])
def test_tokens_in_one_dim_and_squared_activations_are_experts_with_slots(router, run_graph):
    torch.manual_seed(0)
    tiny = {
        **GROUPED,
        "num_experts": 4,
        "num_experts_per_tok": 2,
        "hidden_act": "relu2",
        "use_cache": False,
    }
    model = OlmoeForCausalLM._from_config(OlmoeConfig(**tiny), dtype=torch.float32).train()
    for layer in model.model.layers:
        layer.mlp.gate.forward = MethodType(router, layer.mlp.gate)

    def inputs(sizes):
        ids = torch.zeros(sizes["batch"], sizes["seq"], dtype=torch.long, device="meta")
        return {"input_ids": ids, "labels": ids}

    symbols = {"batch": 2, "seq": 12}
    graph = capture_module(model, inputs, symbols=symbols, limits={"seq": 64}, name="experts")
    kinds = [op.kind for op in graph.ops]
    assert (kinds.count("moe_dispatch"), kinds.count("sort")) == (2, 0)
    ids = torch.randint(3, 90, (2, 12))
    made = run_graph(graph, model, {"input_ids": ids, "labels": ids})
    loss = model(input_ids=ids, labels=ids).loss
    torch.testing.assert_close(made[graph.loss], loss)
    weights = [layer.mlp.gate.weight for layer in model.model.layers]
    wanted = torch.autograd.grad(loss, weights)
    torch.testing.assert_close(torch.autograd.grad(made[graph.loss], weights), wanted)
