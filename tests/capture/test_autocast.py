"""Autocast regions come out as the casts that PyTorch makes on an accelerator."""

import re
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from meshwright.capture import capture_hf, capture_module
from meshwright.capture.autocast import CPU_NOTE, EARLY_NOTE
from meshwright.capture.autocast_ops import POLICIES
from meshwright.schema import GraphError
from tests.capture import precision_models
from tests.capture.precision_models import MODELS, WIDE, Decorated, inputs

HEADER = Path(torch.__path__[0]) / "include" / "ATen" / "autocast_mode.h"
LISTS = {
    "LOWER_PRECISION_FP": "low",
    "FP32": "float32",
    "FP32_SET_OPT_DTYPE": "float32",
    "PROMOTE": "widest",
}
# PyTorch disables regions on a machine without CUDA
pytestmark = pytest.mark.filterwarnings("ignore:CUDA is not available")
ROWS = 6
LOW = {"bfloat16": torch.float32, "float16": torch.float32}


def captured(module, **options):
    return capture_module(
        module,
        lambda sizes: inputs(sizes["batch"], "meta"),
        symbols={"batch": 16},
        name="mixed",
        **options,
    )


@pytest.mark.parametrize("list_name", LISTS)
def test_the_ops_are_those_of_torchs_list(list_name):
    text = HEADER.read_text()
    (body,) = re.findall(rf"define AT_FORALL_{list_name}\(_\)((?:.*\\\n)*.*)", text)
    names = set(re.findall(r"_\((\w+)", body))
    assert len(names) > 5
    assert {name: POLICIES.get(name) for name in names} == dict.fromkeys(names, LISTS[list_name])


class Given(NamedTuple):
    """Rows, a matrix, a vector and labels."""

    x: torch.Tensor
    w: torch.Tensor
    b: torch.Tensor
    y: torch.Tensor


class Region(nn.Module):
    """One function of rows, a matrix and a vector in a region."""

    def __init__(self, function, dtype):
        super().__init__()
        self.function, self.dtype = function, dtype
        self.weight, self.bias = (
            nn.Parameter(torch.rand(WIDE, WIDE)),
            nn.Parameter(torch.rand(WIDE)),
        )

    def forward(self, x, labels):
        with torch.autocast("cuda", torch.bfloat16):
            return self.function(Given(x.to(self.dtype), self.weight, self.bias, labels))


FUNCTIONS = {
    "matmul": lambda t: t.x @ t.w,
    "linear": lambda t: F.linear(t.x, t.w, t.b),
    "einsum": lambda t: torch.einsum("ab,bc->ac", t.x, t.w),
    "attention": lambda t: F.scaled_dot_product_attention(
        t.x.unsqueeze(0), t.w.unsqueeze(0), t.w.unsqueeze(0)
    ),
    "sum of products": lambda t: torch.addmm(t.b, t.x, t.w),
    "of a list": lambda t: torch.linalg.multi_dot([t.x, t.w, t.w]),
    "convolution": lambda t: F.conv1d(t.x.unsqueeze(1), t.w.reshape(8, 1, 8)),
    "softmax": lambda t: F.softmax(t.x, -1),
    "softmax of a dtype": lambda t: t.x.softmax(-1, dtype=torch.float32),
    "layer norm": lambda t: F.layer_norm(t.x, (WIDE,)),
    "rms norm": lambda t: F.rms_norm(t.x, (WIDE,), t.b),
    "exp": lambda t: t.x.exp(),
    "power": lambda t: t.x**2,
    "quotient": lambda t: 1 / (t.x + 9),
    "sum": lambda t: t.x.sum(-1),
    "sum of integers": lambda t: (t.x > 0).sum(-1),
    "mean": lambda t: t.x.mean(-1),
    "variance": lambda t: t.x.var(-1),
    "largest": lambda t: t.x.amax(-1),
    "product with a number": lambda t: 2 * t.x,
    "sum of two": lambda t: t.x + t.b,
    "activation": lambda t: F.gelu(t.x) + F.silu(t.x) + t.x.relu() + t.x.tanh() + t.x.sigmoid(),
    "concat": lambda t: torch.cat([t.x, t.w]),
    "rows of a table": lambda t: F.embedding(t.y, t.w),
    "norm of rows": lambda t: F.normalize(t.x, dim=-1),
    "squared error": lambda t: F.mse_loss(t.x, t.b.expand(ROWS, WIDE)),
    "cross entropy": lambda t: F.cross_entropy(t.x, t.y),
    "smoothed": lambda t: F.cross_entropy(t.x, t.y, label_smoothing=0.1),
    "log likelihood": lambda t: F.nll_loss(t.x, t.y),
    "binary": lambda t: F.binary_cross_entropy_with_logits(t.x, t.x.detach().sigmoid()),
    "running sum": lambda t: t.x.cumsum(-1),
    "written in place": lambda t: t.x.clone().exp_(),
    "soft plus": lambda t: F.softplus(t.x),
    "group norm": lambda t: F.group_norm(t.x, 2, t.b, t.b),
    "dropout": lambda t: F.dropout(t.x, 0.0),
    "tensordot": lambda t: torch.tensordot(t.x, t.w, 1),
}


@pytest.mark.rotating
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_has_the_dtype_that_torch_gives_it(name, dtype):
    """PyTorch's own kernels for CUDA, on tensors without data or device."""
    graph = capture_module(
        Region(FUNCTIONS[name], dtype),
        lambda _: inputs(ROWS, "meta"),
        symbols={},
        name="function",
    )
    with real_autocast(torch.bfloat16), torch.device("cuda"):
        x = torch.empty(ROWS, WIDE, dtype=dtype)
        labels = torch.empty(ROWS, dtype=torch.long)
        wanted = FUNCTIONS[name](Given(x, torch.empty(WIDE, WIDE), torch.empty(WIDE), labels))
    assert graph.tensor(graph.outputs[0]).dtype == str(wanted.dtype).removeprefix("torch.")


@contextmanager
def real_autocast(dtype):
    """A region of PyTorch for tensors that say they are on CUDA."""
    before = torch.get_autocast_dtype("cuda")
    with FakeTensorMode():
        torch.set_autocast_enabled("cuda", True)
        torch.set_autocast_dtype("cuda", dtype)
        try:
            yield
        finally:
            torch.set_autocast_enabled("cuda", False)
            torch.set_autocast_dtype("cuda", before)
            torch.clear_autocast_cache()


@pytest.mark.parametrize("name", MODELS)
def test_a_module_of_mixed_precision_trains_the_same_as_its_graph(name, run_graph):
    """With float32 for the low dtypes in both: regions are disabled without CUDA."""
    model = MODELS[name]
    torch.manual_seed(0)
    module = model.build()
    graph = captured(module, **model.options)
    assert [op.kind for op in graph.ops if "." in op.kind] == []
    batch = inputs(ROWS)
    loss = module(**batch)
    made = run_graph(graph, module, batch, symbols={"batch": ROWS}, dtypes=LOW)[graph.loss]
    rounding = 3e-2 if name == "by hand" else 1e-5
    torch.testing.assert_close(made, loss, rtol=rounding, atol=1e-6)
    parameters = list(module.parameters())
    found, wanted = (torch.autograd.grad(end, parameters) for end in (made, loss))
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=rounding, atol=rounding)


class _Products(TorchDispatchMode):
    """The dtypes of the matrix products that run."""

    def __init__(self):
        super().__init__()
        self.ran = Counter()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if func.overloadpacket.__name__ in ("mm", "addmm", "bmm", "convolution"):
            self.ran[str(result.dtype).removeprefix("torch.")] += 1
        return result


@pytest.mark.parametrize(
    "name", ["wide buffer", "tied head", "gated", "by hand", "custom function"]
)
def test_the_products_of_a_module_have_the_dtypes_that_torch_gives_them(name):
    model = MODELS[name]
    graph = captured(model.build(), **model.options)
    kinds = ("linear", "matmul", "conv")
    found = Counter(graph.tensor(op.outputs[0]).dtype for op in graph.ops if op.kind in kinds)
    dtype = getattr(torch, model.options["autocast"])
    module = model.build()
    state = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    with real_autocast(dtype), torch.no_grad(), torch.device("cuda"), _Products() as products:
        tensors = {n: torch.empty(t.shape, dtype=t.dtype) for n, t in state.items()}
        batch = {"x": torch.empty(ROWS, WIDE), "labels": torch.empty(ROWS, dtype=torch.long)}
        torch.func.functional_call(module, tensors, (), batch)
    assert found == products.ran


def test_parameters_stay_float32_and_are_cast_once():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(WIDE, WIDE)

        def forward(self, x, labels):
            return F.cross_entropy(self.inner(self.inner(x).relu()), labels)

    graph = captured(Twice(), autocast="bfloat16")
    parameters = {t.name: t.dtype for t in graph.tensors if t.role == "parameter"}
    assert parameters == {"inner.weight": "float32", "inner.bias": "float32"}
    casts = Counter(op.inputs[0] for op in graph.ops if op.kind == "cast")
    assert casts["inner.weight"] == casts["inner.bias"] == 1
    assert graph.tensor(graph.loss).dtype == "float32"


def test_low_precision_on_the_processor_gives_the_numbers_of_the_graph(run_graph):
    """Ops that autocast casts alike on CPU and CUDA, with real roundings."""

    class Plain(nn.Module):
        def __init__(self):
            super().__init__()
            self.up, self.down = nn.Linear(WIDE, 32), nn.Linear(32, 5)

        def forward(self, x, labels):
            return F.cross_entropy(self.down(self.up(x).relu()).float(), labels)

    torch.manual_seed(0)
    module, batch = Plain(), inputs(ROWS)
    graph = captured(module, autocast="bfloat16")
    with torch.autocast("cpu", torch.bfloat16):
        loss = module(**batch)
    made = run_graph(graph, module, batch, symbols={"batch": ROWS})[graph.loss]
    torch.testing.assert_close(made, loss, rtol=0, atol=0)
    parameters = list(module.parameters())
    found, wanted = (torch.autograd.grad(end, parameters) for end in (made, loss))
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)


def test_a_region_of_the_processor_is_one_of_an_accelerator_and_noted():
    class OnCpu(nn.Module):
        def __init__(self):
            super().__init__()
            self.out = nn.Linear(WIDE, 5)

        def forward(self, x, labels):
            with torch.autocast("cpu", torch.bfloat16):
                return F.cross_entropy(self.out(x), labels)

    graph = captured(OnCpu())
    assert graph.notes == (CPU_NOTE,)
    assert graph.tensor(graph.loss).dtype == "float32"


def test_a_region_from_before_the_capture_is_noted_where_torch_disabled_it():
    if torch.cuda.is_available():
        pytest.skip("PyTorch enables the region")
    assert EARLY_NOTE in captured(Decorated()).notes


def test_a_factory_module_with_a_decorated_forward_is_in_its_region(tmp_path, monkeypatch):
    """The module is imported in the capture, where regions need no device."""
    from meshwright.capture import capture_factory

    source = Path(precision_models.__file__).read_text()
    recipe = (
        "\n\ndef recipe():\n    from meshwright.capture import Recipe\n"
        "    feed = lambda sizes: inputs(sizes['batch'], 'meta')\n"
        "    return Recipe('decorated', Decorated(), feed, {'batch': 16})\n"
    )
    (tmp_path / "decorated_factory.py").write_text(source + recipe)
    monkeypatch.syspath_prepend(str(tmp_path))
    graph = capture_factory("decorated_factory:recipe")
    assert graph.notes == ()
    dtypes = {graph.tensor(op.outputs[0]).dtype for op in graph.ops if op.kind == "linear"}
    assert dtypes == {"bfloat16"}


def test_what_autocast_refuses_is_refused():
    class Refused(nn.Module):
        def __init__(self):
            super().__init__()
            self.out = nn.Linear(WIDE, 1)

        def forward(self, x, labels):
            return F.binary_cross_entropy(self.out(x).sigmoid()[:, 0], labels.float())

    with pytest.raises(GraphError, match=r"autocast refuses binary_cross_entropy, .*_with_logits"):
        captured(Refused(), autocast="bfloat16")


def test_the_state_of_torch_is_as_before():
    before = torch.is_autocast_enabled("cuda"), torch.get_autocast_dtype("cuda")
    methods = [getattr(torch.autocast, name) for name in ("__init__", "__enter__", "__exit__")]
    captured(MODELS["nested regions"].build())
    assert (torch.is_autocast_enabled("cuda"), torch.get_autocast_dtype("cuda")) == before
    after = [getattr(torch.autocast, name) for name in ("__init__", "__enter__", "__exit__")]
    assert after == methods


def test_a_configuration_under_autocast_has_float32_parameters_and_rotary_angles(config):
    settings = {**config("llama"), "dtype": "bfloat16"}
    graph = capture_hf(settings, batch=64, seq=32, autocast="bfloat16")
    assert {t.dtype for t in graph.tensors if t.role == "parameter"} == {"float32"}
    dtypes = {kind: set() for kind in ("linear", "attention", "rms_norm", "cos", "cross_entropy")}
    for op in graph.ops:
        if op.kind in dtypes:
            dtypes[op.kind].add(graph.tensor(op.outputs[0]).dtype)
    assert dtypes == {
        "linear": {"bfloat16"}, "attention": {"bfloat16"}, "rms_norm": {"float32"},
        "cos": {"float32"}, "cross_entropy": {"float32"},
    }  # fmt: skip


def test_products_with_casts_of_parameters_are_linear(config):
    """GPT-2 multiplies by weights of inputs x outputs, with addmm."""
    low, autocast = (
        capture_hf(config("gpt2"), batch=64, seq=32, **options)
        for options in ({"dtype": "bfloat16"}, {"autocast": "bfloat16"})
    )
    counts = [Counter(op.kind for op in graph.ops) for graph in (low, autocast)]
    assert counts[0]["linear"] == counts[1]["linear"] == 9
    assert counts[1]["matmul"] == 0
