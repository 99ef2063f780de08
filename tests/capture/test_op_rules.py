"""Rules of ops without a canonical kind: found by evaluation, or stated by the user."""

from itertools import combinations

import pytest
import torch

from meshwright.capture import Recipe, capture_module
from meshwright.capture.op_rules.find import RuleSearch
from meshwright.schema import Degrees, GraphError, Setup
from meshwright_solver.verification.verify import verify_documents
from tests import own_ops
from tests.solver.requests import planned, toy_request
from tests.solver.small_graphs import GraphMaker, topology

OWN = torch.ops.meshwright_tests
assert own_ops.fused_norm  # the import registers the operators


class Scaled(torch.nn.Module):
    """A function of scaled inputs, so that gradients flow through it."""

    def __init__(self, function, weights=()):
        super().__init__()
        self.function = function
        self.scale = torch.nn.Parameter(torch.ones(1))
        self.weights = torch.nn.ParameterList(torch.ones(shape) for shape in weights)

    def forward(self, **inputs):
        scaled = [x * self.scale if x.is_floating_point() else x for x in inputs.values()]
        result = self.function(*scaled, *self.weights)
        return (result if isinstance(result, torch.Tensor) else result[0]).float().square().mean()


def captured(function, *shapes, weights=(), dtypes=None, **options):
    """The graph of a function of inputs in which `batch` and `seq` are symbols."""

    def inputs(sizes):
        return {
            f"x{k}": torch.zeros(
                [sizes.get(size, size) for size in shape],
                dtype=dtypes[k] if dtypes else torch.float32,
                device="meta",
            )
            for k, shape in enumerate(shapes)
        }

    used = {size for shape in shapes for size in shape if isinstance(size, str)}
    symbols = {name: value for name, value in (("batch", 32), ("seq", 64)) if name in used}
    module = Scaled(function, weights)
    return capture_module(module, inputs, symbols=symbols, name="case", **options)


def unknown(graph):
    (op,) = [op for op in graph.ops if "." in op.kind]
    return op


ROWS = ("batch", 6)
SHARDED = {
    "logcumsumexp": (lambda x: x.logcumsumexp(1), [ROWS], "b u0_1! -> b w0_1!"),
    "matrix_exp": (torch.matrix_exp, [("batch", 3, 3)], "b u0_1! u0_2! -> b w0_1! w0_2!"),
    "linalg.det": (torch.linalg.det, [("batch", 3, 3)], "b u0_1! u0_2! -> b"),
    "linalg.cholesky": (
        torch.linalg.cholesky_ex,
        [("batch", 3, 3)],
        "b u0_1! u0_2! -> b w0_1! w0_2!, b",
    ),
    "kthvalue": (lambda x: x.kthvalue(2, 1), [ROWS], "b u0_1! -> b, b"),
    "batch in the middle": (
        lambda x: x.logcumsumexp(0),
        [("seq", "batch", 6)],
        "u0_0! b u0_2! -> w0_0! b w0_2!",
    ),
    "rows of all sequences": (
        lambda x: x.reshape(-1, 6).logcumsumexp(1),
        [("batch", "seq", 6)],
        "b u0_1! -> b w0_1!",
    ),
    "a whole input": (
        lambda x, w: OWN.fused_norm(x, w, 1e-6),
        [("batch", "seq", 8)],
        "b u0_1! u0_2!, u1_0! -> b w0_1! w0_2!",
    ),
}


@pytest.mark.parametrize("name", SHARDED)
def test_an_op_whose_samples_are_independent_is_sharded_by_them(name):
    function, shapes, notation = SHARDED[name]
    graph = captured(function, *shapes, weights=[(8,)] if name == "a whole input" else ())
    op = unknown(graph)
    assert op.rule is not None, graph.notes
    assert op.rule.notation == notation
    assert "samples are independent" in graph.notes[-1]


@pytest.mark.rotating
@pytest.mark.parametrize("name", SHARDED)
def test_a_data_parallel_plan_shards_the_op_and_is_verified(name):
    function, shapes, _ = SHARDED[name]
    graph = captured(function, *shapes, weights=[(8,)] if name == "a whole input" else ())
    devices, setup = topology(4), Setup(microbatches=1)
    plan = planned(toy_request(graph=graph, topology=devices, degrees=Degrees(dp=4), setup=setup))
    (own,) = [op for op in plan.stages[0].ops if op.op == unknown(graph).name]
    assert ("dp",) in own.strategy.values()
    certificate = verify_documents(plan, graph, devices, setup)
    assert certificate.outcome == "verified", certificate.detail
    assert certificate.gradients > 0


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda x: x.logcumsumexp(0), "its samples depend on each other"),
        (OWN.batch_centered, "its samples depend on each other"),
        (torch.rand_like, "it draws random numbers"),
        (lambda x: x[:5].logcumsumexp(0), "no dim of the batch"),
    ],
)
def test_an_op_whose_samples_may_depend_on_each_other_is_replicated_with_its_price(
    function, reason
):
    graph = captured(function, ROWS)
    assert unknown(graph).rule is None
    (note,) = [note for note in graph.notes if "kept replicated" in note]
    assert reason in note
    assert "Every device computes all of it and moves" in note


def test_the_note_names_the_modules_of_an_op():
    class Layer(torch.nn.Module):
        def forward(self, x):
            return x.logcumsumexp(0)

    layers = torch.nn.Sequential(*(Layer() for _ in range(5)))
    graph = capture_module(
        layers,
        lambda sizes: [torch.zeros(sizes["batch"], 6, device="meta")],
        symbols={"batch": 1024},
        name="layers",
    )
    (note,) = [note for note in graph.notes if "kept replicated" in note]
    # 5 ops read and write 1024 x 6 floats
    assert note.startswith("no canonical kind for aten.logcumsumexp.default in 0, 1, 2 and 2 more;")
    assert "moves 240 KiB" in note


def test_a_stated_rule_shards_more_than_the_batch():
    rules = {"meshwright_tests::fused_norm": "b s [h], [h] -> b s [h]"}
    graph = captured(
        lambda x, w: OWN.fused_norm(x, w, 1e-6), ("batch", "seq", 8), weights=[(8,)], rules=rules
    )
    assert unknown(graph).rule.notation == "b s h!, h! -> b s h!"
    assert "evaluations on random data agree with it" in graph.notes[-1]


def test_an_op_with_a_stated_rule_is_not_decomposed():
    graph = captured(torch.celu, ROWS, rules={"aten::celu": "a b -> a b"})
    assert unknown(graph).rule.notation == "a b -> a b"


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        (
            {"meshwright_tests::fused_norm": "b s h, h -> b s h"},
            r"fused_norm is not independent along 'h' of .*: .* output 0 differs. Write \[h\]",
        ),
        ({"meshwright_tests::fused_nrm": "b -> b"}, "no op 'meshwright_tests::fused_nrm' .* they"),
        ({"meshwright_tests::fused_norm": "b s h -> b s h"}, "has 1 inputs, the op has 2"),
        ({"meshwright_tests::fused_norm": "b h, h -> b h"}, "has 2 dims in the rule and the shape"),
        ({"meshwright_tests::fused_norm": "b s h^, h -> b s h"}, r"Use names, \[names\]"),
        ({"meshwright_tests::fused_norm": "b s [h, h -> b s h"}, "cannot read"),
        ({"meshwright_tests::fused_norm": "b b h, h -> b b h"}, "stands in two dims of one tensor"),
    ],
)
def test_a_wrong_rule_is_refused_in_one_line(rules, message):
    with pytest.raises(GraphError, match=message) as refused:
        captured(
            lambda x, w: OWN.fused_norm(x, w, 1e-6),
            ("batch", "seq", 8),
            weights=[(8,)],
            rules=rules,
        )
    assert "\n" not in str(refused.value)


def subsets(dims):
    return [subset for count in range(4) for subset in combinations(dims, count)]


@pytest.mark.parametrize("mixed", subsets((0, 1, 2)))
def test_a_rule_is_refused_exactly_if_the_op_mixes_a_dim_that_it_shards(mixed):
    maker = GraphMaker(batch=8)
    x = maker.op("sin", [maker.parameter("x", "batch", 6, 4)], ["batch", 6, 4])
    attrs = {"dims": list(mixed), "tensors": ["x"]}
    graph = maker.graph(
        maker.op("meshwright_tests.mixed.default", [x], ["batch", 6, 4], attrs=attrs)
    )
    for whole in subsets((0, 1, 2)):
        term = " ".join(f"[{name}]" if k in whole else name for k, name in enumerate("bsh"))
        search = RuleSearch(graph, {"meshwright_tests::mixed": f"{term} -> {term}"})
        if set(mixed) <= set(whole):
            assert len(search.rules()) == 1
        else:
            with pytest.raises(GraphError, match="is not independent along"):
                search.rules()
    (found,) = RuleSearch(graph).rules().values()
    assert (found.rule is None) == (0 in mixed)


def test_a_rule_that_is_wrong_in_the_backward_pass_is_refused():
    library = torch.library.Library("meshwright_tests_backward", "DEF")
    library.define("tilted(Tensor x) -> Tensor")

    class Tilted(torch.autograd.Function):
        @staticmethod
        def forward(_ctx, x):
            return x * 2

        @staticmethod
        def backward(_ctx, gradient):
            return gradient - gradient.mean(0, keepdim=True)

    library.impl("tilted", Tilted.apply, "Autograd")
    library.impl("tilted", lambda x: x * 2, "CPU")
    library.impl("tilted", torch.empty_like, "Meta")
    graph = captured(torch.ops.meshwright_tests_backward.tilted, ROWS)
    assert unknown(graph).rule is None


def test_a_rule_that_cannot_be_checked_is_taken_with_a_note():
    library = torch.library.Library("meshwright_tests_device", "DEF")
    library.define("kernel(Tensor x) -> Tensor")
    library.impl("kernel", torch.empty_like, "Meta")
    graph = captured(
        torch.ops.meshwright_tests_device.kernel,
        ROWS,
        rules={"meshwright_tests_device::kernel": "a b -> a b"},
    )
    assert unknown(graph).rule.notation == "a b -> a b"
    assert "it is stated, and not checked" in graph.notes[-1]


def test_a_recipe_states_rules():
    recipe = Recipe("net", torch.nn.Identity(), lambda _: {}, {}, rules={"a::b": "x -> x"})
    assert recipe.rules == {"a::b": "x -> x"}


def test_an_op_with_the_name_of_one_of_pytorch_is_not_taken_for_it():
    graph = captured(OWN.gelu, ("batch", 8))
    assert "meshwright_tests.gelu.default" in [op.kind for op in graph.ops]
