"""A job whose module or batch is not that of its plan ends at its start, and says what differs."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
import transformers
from torch import nn

import meshwright
from meshwright.capture import capture_hf
from meshwright.capture.hf import build_config, head_of
from meshwright.planfile import PlanFile
from meshwright.runtime.torch.module_check import ModuleCheck
from meshwright.schema import Graph, InvalidInput, ModuleMismatch, Setup
from meshwright_solver.planning.planner import plan
from tests.capture.architectures import ARCHITECTURES
from tests.runtime.block_models import LENGTH, WORDS, block_model, captured_block, compared
from tests.solver.requests import toy_request
from tests.solver.small_graphs import topology

DOCS = Path(__file__).parents[2] / "docs" / "how-to" / "runtime.md"
T = torch.Tensor


@pytest.fixture(scope="module", autouse=True)
def _alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A world of this process."""
    store = dist.FileStore(str(tmp_path_factory.mktemp("alone") / "store"), 1)
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A plan of the block model without dropout."""
    return planned(captured_block(dropout=0.0), tmp_path_factory.mktemp("plan"))


def planned(graph: Graph, folder: Path) -> Path:
    setup = Setup(global_batch=4, microbatches=1)
    plan_ = plan(toy_request(graph=graph, topology=topology(1), setup=setup)).plan
    assert plan_ is not None
    held = PlanFile(plan=plan_, graph=graph, topology=topology(1), setup=setup)
    held.write(folder / "plan.json")
    return folder / "plan.json"


def words(rows: int = 4) -> dict[str, T]:
    return {name: torch.randint(0, WORDS, (rows, LENGTH)) for name in ("ids", "labels")}


def test_the_module_of_the_plan_trains_and_its_check_is_named(file: Path) -> None:
    module = block_model(dropout=0.0)
    with meshwright.parallelize(module, file) as trained:
        assert trained.module_check == ModuleCheck("graph")
        batch = words()
        loss = trained.step(**trained.slice(batch))
        assert float(loss) == pytest.approx(float(module(**batch).detach()), rel=1e-5)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"activation": F.relu},
            r"op 'gelu' differs. The plan's graph graph_\w+ has gelu\(approximate=none\) of 'up' "
            r"-> float32\[batch, 8, 32\], the module has relu\(\) of 'up' .* \('relu'\). Train the "
            "module that was captured, or capture this module and plan again",
        ),
        ({"is_causal": False}, r"has attention\(causal=True, .* has attention\(causal=False, "),
        ({"residual": 5.0}, r"has add\(\) of .*, the module has mul\(other=5.0\) of 'out'"),
        ({"dropout": 0.1}, r"has add\(\) of .*, the module has dropout\(p=0.1\) of 'out'"),
    ],
)
def test_another_module_is_refused_with_the_first_op_that_differs(
    changes: dict[str, object], message: str, file: Path
) -> None:
    with pytest.raises(ModuleMismatch, match=f"the module is .*that of the plan.*{message}") as why:
        meshwright.parallelize(block_model(**{"dropout": 0.0, **changes}), file)
    if changes == {"activation": F.relu}:
        message = str(why.value).replace(captured_block(dropout=0.0).id, "graph_…")
        assert message in " ".join(DOCS.read_text().split())


def test_without_the_check_the_plan_trains_and_the_log_says_so(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    module = block_model(dropout=0.0, activation=F.relu)
    with meshwright.parallelize(module, file, check_module="none") as trained:
        assert trained.module_check.method == "none"
    assert (
        "the module was not compared with the plan's graph: check_module is 'none'" in caplog.text
    )


def test_the_loss_of_one_step_is_compared_on_request(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with meshwright.parallelize(block_model(dropout=0.0), file, check_module="loss") as trained:
        assert trained.module_check.method == "loss"
    assert "by the loss and gradients of one step: check_module is 'loss'" in caplog.text
    other = block_model(dropout=0.0, activation=F.relu)
    with pytest.raises(ModuleMismatch, match=r"its loss is .*, and that of the plan's graph graph"):
        meshwright.parallelize(other, file, check_module="loss")


def test_parameters_of_a_wider_dtype_are_accepted_and_logged(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    with meshwright.parallelize(block_model(dropout=0.0).double(), file) as trained:
        assert trained.module_check.method == "graph"
    assert "parameters are float64, and float32 in the plan's graph" in caplog.text


def test_an_unknown_and_a_missing_key_of_a_batch_are_named(file: Path) -> None:
    unknown = "has the key 'mask', .* its inputs are 'ids', 'labels'. Remove the key, or capture"
    with meshwright.parallelize(block_model(dropout=0.0), file) as trained:
        batch = words()
        for call in (trained.slice, lambda batch: trained.step(**batch)):
            with pytest.raises(InvalidInput, match=unknown):
                call({**batch, "mask": batch["ids"]})
            with pytest.raises(InvalidInput, match=r"no 'labels', .* its keys are 'ids'. Add the"):
                call({"ids": batch["ids"]})


class Other(nn.Module):
    """A forward with other arguments than the captured one."""

    def __init__(self) -> None:
        super().__init__()
        self.block = block_model(dropout=0.0)

    def forward(self, tokens: T, labels: T) -> T:
        return self.block(tokens, labels)


def test_a_forward_with_other_arguments_is_refused() -> None:
    with pytest.raises(ModuleMismatch, match="has the input 'ids', and the forward of Other has"):
        compared(Other(), captured_block(dropout=0.0))


class Mlp(nn.Module):
    def __init__(self, factor: float = 1.0) -> None:
        super().__init__()
        self.factor = factor
        self.up, self.down = nn.Linear(4, 8, bias=False), nn.Linear(8, 1, bias=False)

    def forward(self, x: T) -> T:
        return self.factor * self.down(F.relu(self.up(x))).mean()


def by_hand(*, with_linear: bool) -> Graph:
    """The graph of Mlp without modules; its first product as `linear`, or written out."""
    up: list[dict[str, object]] = [
        {"name": "a", "kind": "linear", "inputs": ["x", "up.weight"], "outputs": ["a"],
         "attrs": {"weight_layout": "nk"}}
    ]  # fmt: skip
    turned = []
    if not with_linear:
        up = [
            {"name": "t", "kind": "transpose", "inputs": ["up.weight"], "outputs": ["t"],
             "attrs": {"dims": [1, 0]}},
            {"name": "a", "kind": "matmul", "inputs": ["x", "t"], "outputs": ["a"]},
        ]  # fmt: skip
        turned = [{"name": "t", "shape": [4, 8], "dtype": "float32"}]
    return Graph.from_dict(
        {
            "symbols": {"batch": 4},
            "tensors": [
                {"name": "x", "shape": ["batch", 4], "dtype": "float32", "role": "input"},
                {"name": "up.weight", "shape": [8, 4], "dtype": "float32", "role": "parameter"},
                {"name": "down.weight", "shape": [1, 8], "dtype": "float32", "role": "parameter"},
                *turned,
                {"name": "a", "shape": ["batch", 8], "dtype": "float32"},
                {"name": "b", "shape": ["batch", 8], "dtype": "float32"},
                {"name": "c", "shape": ["batch", 1], "dtype": "float32"},
                {"name": "d", "shape": [], "dtype": "float32"},
            ],
            "ops": [
                *up,
                {"name": "b", "kind": "relu", "inputs": ["a"], "outputs": ["b"]},
                {"name": "c", "kind": "linear", "inputs": ["b", "down.weight"], "outputs": ["c"],
                 "attrs": {"weight_layout": "nk"}},
                {"name": "d", "kind": "mean", "inputs": ["c"], "outputs": ["d"],
                 "attrs": {"dims": [0, 1], "keepdim": False}},
            ],
            "outputs": ["d"],
            "loss": "d",
        }
    )  # fmt: skip


def test_a_graph_written_by_hand_is_compared_by_its_ops_or_by_a_step() -> None:
    assert compared(Mlp(), by_hand(with_linear=True)) == ModuleCheck("graph")
    graph = by_hand(with_linear=False)
    result = compared(Mlp(), graph)
    assert result.method == "loss"
    assert "is not a capture of a PyTorch module" in result.reason
    with pytest.raises(ModuleMismatch, match="its loss is"):
        compared(Mlp(5.0), graph)


@pytest.mark.rotating
@pytest.mark.parametrize("model_type", ["bert", "gpt2", "t5", "clip", "mixtral", "mamba"])
def test_a_model_of_transformers_is_that_of_its_configuration(model_type: str) -> None:
    config = next(a.small for a in ARCHITECTURES if a.model_type == model_type)
    graph = capture_hf(config, batch=4)
    built = build_config(config)
    # as users have it: with a cache, which a training step does not read
    built.use_cache = True
    module = head_of(config, built)._from_config(built, dtype=torch.float32).train()
    assert isinstance(module, transformers.PreTrainedModel)
    assert compared(module, graph) == ModuleCheck("graph")


def test_dropout_of_a_model_of_transformers_is_refused() -> None:
    """`capture_hf` captures without dropout, which a configuration has by default."""
    config = next(a.small for a in ARCHITECTURES if a.model_type == "gpt2")
    raw = transformers.AutoConfig.for_model(**config)
    module = transformers.GPT2LMHeadModel(raw).train()
    with pytest.raises(ModuleMismatch, match=r"the module has dropout\(p=0.1\)"):
        compared(module, capture_hf(config, batch=4))
