"""Ops without a converter are captured as PyTorch's decompositions of them."""

import pytest
import torch
import torch.nn.functional as F

from meshwright.capture import capture_module, interpret
from meshwright.schema import Degrees, Setup
from meshwright_solver.verification.verify import verify_documents
from tests.solver.requests import planned, toy_request
from tests.solver.small_graphs import topology

BATCH = 4


def rows(*shape):
    return torch.float32, (BATCH, *shape)


CASES = {
    "addcdiv": (lambda x, y: torch.addcdiv(x, x, y, value=0.5), rows(6), rows(6)),
    "cosine_similarity": (F.cosine_similarity, rows(6), rows(6)),
    "pixel_shuffle": (lambda x: F.pixel_shuffle(x, 2), rows(8, 3, 3)),
    "huber_loss": (F.huber_loss, rows(6), rows(6)),
    "im2col": (lambda x: F.unfold(x, 3, padding=1, stride=2), rows(3, 8, 8)),
    "celu": (lambda x: F.celu(x - 0.5, 1.3), rows(6)),
    "renorm": (lambda x: x.renorm(2, 0, 1.0), rows(6)),
    "var_mean": (lambda x: torch.cat(torch.var_mean(x, 1)), rows(6)),
    "poisson_nll_loss": (F.poisson_nll_loss, rows(6), rows(6)),
    "triplet_margin_loss": (F.triplet_margin_loss, rows(6), rows(6), rows(6)),
    "kron": (lambda x, y: torch.kron(x, y[:1]), rows(6), rows(3)),
    "diag_embed": (torch.diag_embed, rows(6)),
    "nll_loss": (lambda x, y: F.nll_loss(x, y, ignore_index=2), rows(6), (torch.int64, (BATCH,))),
    "trapezoid": (lambda x: torch.trapezoid(x, dim=1), rows(6)),
    "lerp in place": (lambda x, y: (x * 1).lerp_(y, 0.3), rows(6), rows(6)),
}


class Loss(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function
        self.scale = torch.nn.Parameter(torch.tensor([0.9]))

    def forward(self, **inputs):
        scaled = [x * self.scale if x.is_floating_point() else x for x in inputs.values()]
        return self.function(*scaled).square().mean()


@pytest.mark.rotating
@pytest.mark.parametrize("name", CASES)
def test_a_decomposed_op_keeps_loss_and_gradient_and_its_batch_is_sharded(name):
    function, *forms = CASES[name]
    module = Loss(function)

    def inputs(sizes, device="meta"):
        return {
            f"x{k}": torch.zeros(sizes["batch"], *shape[1:], dtype=dtype, device=device)
            for k, (dtype, shape) in enumerate(forms)
        }

    graph = capture_module(module, inputs, symbols={"batch": BATCH}, name=name)
    assert not [op.kind for op in graph.ops if "." in op.kind]
    generator = torch.Generator().manual_seed(0)
    batch = {
        key: torch.rand(zeros.shape, generator=generator) + 0.1
        if zeros.is_floating_point()
        else torch.randint(0, 6, zeros.shape, generator=generator)
        for key, zeros in inputs({"batch": BATCH}, "cpu").items()
    }
    wanted = module(**batch)
    made = interpret(graph, {**dict(module.named_parameters()), **batch})[graph.loss]
    torch.testing.assert_close(made, wanted)
    gradients = [torch.autograd.grad(loss, module.scale)[0] for loss in (made, wanted)]
    torch.testing.assert_close(*gradients)
    devices, setup = topology(4), Setup(microbatches=1)
    plan = planned(toy_request(graph=graph, topology=devices, degrees=Degrees(dp=4), setup=setup))
    certificate = verify_documents(plan, graph, devices, setup)
    assert certificate.outcome == "verified", certificate.detail
    of_batch = {op.name for op in graph.ops if "batch" in graph.tensor(op.outputs[0]).shape}
    assert not [
        op.op for op in plan.stages[0].ops if op.op in of_batch and not any(op.strategy.values())
    ]


class Celu(torch.nn.Module):
    def forward(self, x):
        return F.celu(x).sum()


class FirstOutput(torch.nn.Module):
    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, x):
        return self.module(x)[0].sum()


def of_rows(module, *shape):
    return capture_module(
        module,
        lambda sizes: [torch.zeros(sizes["batch"], *shape, device="meta")],
        symbols={"batch": 8},
        name="rows",
    )


def test_the_parts_of_an_op_keep_its_module():
    graph = of_rows(torch.nn.Sequential(torch.nn.Linear(4, 4), Celu()), 4)
    assert [op.kind for op in graph.ops if op.module == "0"] == ["linear"]
    assert "expm1" in [op.kind for op in graph.ops if op.module == "1"]


def test_ops_with_a_converter_are_not_decomposed():
    layers = torch.nn.Sequential(
        torch.nn.LayerNorm(6), torch.nn.Mish(), torch.nn.Softmax(-1), Celu()
    )
    kinds = [op.kind for op in of_rows(layers, 6).ops]
    assert kinds[:3] == ["layer_norm", "mish", "softmax"]


class WriteIntoClone(torch.nn.Module):
    def forward(self, x):
        copy = x.clone()
        copy.add_(1)
        return x * copy


def test_a_write_into_a_clone_leaves_the_original(check_capture):
    check_capture(WriteIntoClone(), torch.linspace(-1, 1, 12).reshape(3, 4))


class Ramp(torch.nn.Module):
    def forward(self, x):
        return (x * torch.hann_window(x.shape[0])[:, None]).sum()


def test_an_op_whose_decomposition_has_fractions_of_a_size_is_not_decomposed():
    graph = of_rows(Ramp(), 4)
    assert "aten.hann_window.default" in [op.kind for op in graph.ops]
    x = torch.rand(8, 4)
    (name,) = [tensor.name for tensor in graph.tensors if tensor.role == "input"]
    made = interpret(graph, {name: x}, symbols={"batch": 8})[graph.loss]
    torch.testing.assert_close(made, Ramp()(x))
