"""What a compiled stack is said to keep is what PyTorch's compiler keeps, to the byte.

The partitioner that `torch.compile` cuts forward and backward pass with; nothing is run by the code
that it would then generate. Numbers of whole rows (means, deviations, maxima and sums of softmax)
it keeps too, and the masks that it makes of positions: they are left out, as rules do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from functorch.compile import make_boxed_func, min_cut_rematerialization_partition
from torch import nn
from torch._dynamo.backends.common import aot_autograd
from torch._inductor.decomposition import select_decomp_table
from torch.nn import functional as F

from examples.models.gpt_unfused import Gpt, Sizes
from meshwright.capture import capture_module
from meshwright.schema import Budget, Graph, Setup
from tests.capture.as_written import attention_as_written
from tests.solver.requests import planned, toy_request
from tests.solver.small_graphs import topology

T = torch.Tensor
BATCH, SEQ, WIDTH, WORDS = 2, 8, 16, 24
IDS = ("ids", "labels")


class Stream(nn.Module):
    """Words, layers that add something to them, a head and its loss."""

    def __init__(self, layers: nn.ModuleList) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.layers = layers
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, ids: T, labels: T) -> T:
        x = self.words(ids)
        for layer in self.layers:
            x = x + layer(x)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), labels.flatten())


class Gated(nn.Module):
    """A norm and a SwiGLU layer, as Llama has them."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(WIDTH, eps=1e-6)
        self.gate, self.up = (nn.Linear(WIDTH, 3 * WIDTH, bias=False) for _ in range(2))
        self.down = nn.Linear(3 * WIDTH, WIDTH, bias=False)

    def forward(self, x: T) -> T:
        x = self.norm(x)
        return self.down(F.silu(self.gate(x)) * self.up(x))  # type: ignore[no-any-return]


class WrittenOut(nn.Module):
    """GPT-2's activation in single steps, and a norm behind it that nothing but ops of the like
    read."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.norm = nn.LayerNorm(4 * WIDTH)

    def forward(self, x: T) -> T:
        up = self.up(x)
        up = 0.5 * up * (1 + torch.tanh(0.8 * (up + 0.04 * up**3)))
        return self.down(F.silu(self.norm(up)))  # type: ignore[no-any-return]


CASES: Mapping[str, Callable[[], nn.Module]] = {
    "gated": lambda: Stream(nn.ModuleList([Gated(), Gated()])),
    "written out": lambda: Stream(nn.ModuleList([WrittenOut()])),
    "gpt": lambda: Gpt(Sizes(4, WIDTH, 2, 1, 1, BATCH, sequence=SEQ, vocabulary=WORDS), 2),
}


def kept_by_compiler(module: nn.Module, inputs: Mapping[str, T]) -> list[T]:
    """What the compiled forward pass leaves for the backward pass, without what comes in."""
    kept: list[T] = []

    def forward(program: Any, _: Any) -> Any:
        return make_boxed_func(program.forward)

    def backward(program: Any, _: Any) -> Any:
        given = [node for node in program.graph.nodes if node.op == "placeholder"]
        made = [node for node in given if not node.name.startswith(("primals", "tangents"))]
        kept.extend(node.meta["val"] for node in made)
        return make_boxed_func(program.forward)

    backend = aot_autograd(
        fw_compiler=forward,
        bw_compiler=backward,
        partition_fn=min_cut_rematerialization_partition,
        decompositions=select_decomp_table(),
    )
    torch._dynamo.reset()
    torch.compile(module, backend=backend, fullgraph=True)(**inputs).backward()
    return kept


def counts(tensor: T) -> bool:
    """Whether it is neither a number of each row nor a mask or number of positions."""
    if tensor.dim() < 2 or tensor.shape[-1] == 1:
        return False
    return tensor.is_floating_point() or (tensor.dtype == torch.bool and tensor.dim() > 2)


def predicted(graph: Graph, execution: str) -> int:
    setup = Setup(microbatches=1, execution=execution)
    request = toy_request(graph=graph, topology=topology(1), setup=setup, budget=Budget(max_axes=1))
    return planned(request).cost.memory_bytes.activations


@pytest.mark.parametrize(("name", "less"), [("gated", True), ("written out", True), ("gpt", False)])
def test_a_compiled_stack_keeps_what_the_compiler_keeps(name: str, less: bool) -> None:
    module = CASES[name]()
    inputs = {own: torch.randint(0, WORDS, (BATCH, SEQ)) for own in IDS}
    with attention_as_written():
        graph = capture_module(
            module, lambda _: {k: v.to("meta") for k, v in inputs.items()}, symbols={}, name="case"
        )
    kept = [own for own in kept_by_compiler(module, inputs) if counts(own)]
    found = sum(own.numel() * own.element_size() for own in kept)
    assert predicted(graph, "compiled") == found
    assert (found < predicted(graph, "eager")) == less
