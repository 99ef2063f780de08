"""Captured graphs of tiny models give the loss and the gradients of the models themselves."""

import copy
from collections import Counter

import pytest
import torch
import transformers

from examples.models.face_head import FaceHead
from examples.models.resnet50 import ResNet
from examples.models.unet3d import UNet3D
from examples.models.wide_deep import WideDeep
from meshwright.capture import capture_hf, capture_module
from tests.capture.training import assert_trains_the_same

BATCH, SEQ = 3, 12


def real_model(config):
    torch.manual_seed(0)
    built = transformers.AutoConfig.for_model(**config)
    for field in list(vars(built)):
        if "drop" in field and isinstance(getattr(built, field), float):
            setattr(built, field, 0.0)
    head = getattr(transformers, config["architectures"][0])
    model = head._from_config(built, dtype=torch.float32, attn_implementation="sdpa")
    # tables and biases start at zero, which would hide a wrong gradient
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.05)
    return model.train()


def text_inputs(model, *, next_sentence=False):
    vocabulary = model.config.vocab_size
    inputs = {
        "input_ids": torch.randint(0, vocabulary, (BATCH, SEQ)),
        "labels": torch.randint(0, vocabulary, (BATCH, SEQ)),
    }
    inputs["labels"][0, :5] = -100
    if next_sentence:
        inputs["next_sentence_label"] = torch.randint(0, 2, (BATCH,))
        inputs["token_type_ids"] = torch.randint(0, 2, (BATCH, SEQ))
    return inputs


def assert_same_training(graph, model, loss, made, rtol=1e-4):
    # the experts that no token chose have no gradient in one of the two
    assert_trains_the_same(dict(model.named_parameters()), loss, made[graph.loss], rtol=rtol)


@pytest.mark.rotating
@pytest.mark.parametrize("family", ["llama", "gpt2", "bert", "masked-bert", "mixtral"])
def test_a_language_model_trains_the_same_as_its_graph(family, config, run_graph):
    settings = config(family)
    graph = capture_hf(settings, batch=64, seq=32)
    assert graph.symbols == {"batch": 64, "seq": 32}
    assert graph.notes == ()
    model = real_model(settings)
    inputs = text_inputs(model, next_sentence=family == "bert")
    loss = model(**inputs).loss
    sizes = {"batch": BATCH, "seq": SEQ}
    made = run_graph(graph, model, inputs, symbols=sizes)
    assert_same_training(graph, model, loss, made)


def test_slots_that_do_not_divide_are_rounded_up(config, run_graph):
    # 5 experts, 2 for a token: 32 tokens give 12.8 slots an expert, 16 as a multiple of 8
    settings = {**config("mixtral"), "num_local_experts": 5}
    graph = capture_hf(settings, batch=64, seq=32)
    assert graph.notes == (
        "5 experts, 2 of them for each token: 12.8 slots of an expert per sequence are rounded up "
        "to 16",
    )
    dispatch = next(op for op in graph.ops if op.kind == "moe_dispatch")
    sizes = [graph.instantiate({"seq": seq})[dispatch.outputs[0]][2] for seq in (20, 32, 40, 41)]
    assert sizes == [8, 16, 16, 24]
    model = real_model(settings)
    inputs = text_inputs(model)
    inputs["input_ids"].clamp_(min=1)  # torch leaves out the gradient of the padding token
    loss = model(**inputs).loss
    sizes = {"batch": BATCH, "seq": SEQ}
    made = run_graph(graph, model, inputs, symbols=sizes)
    assert_same_training(graph, model, loss, made)


def test_slots_that_divide_keep_the_exact_size(config):
    graph = capture_hf({**config("mixtral"), "num_local_experts": 5}, batch=64, seq=40)
    dispatch = next(op for op in graph.ops if op.kind == "moe_dispatch")
    assert graph.tensor(dispatch.outputs[0]).shape == (5, "batch", "2*seq//5", 32)
    assert graph.notes == ()


def test_an_image_model_trains_the_same_as_its_graph(config, run_graph):
    settings = config("vit")
    graph = capture_hf(settings, batch=64)
    assert graph.symbols == {"batch": 64}
    model = real_model(settings)
    inputs = {
        "pixel_values": torch.randn(BATCH, 3, 16, 16),
        "labels": torch.randint(0, 10, (BATCH,)),
    }
    loss = model(**inputs).loss
    made = run_graph(graph, model, inputs, symbols={"batch": BATCH})
    assert_same_training(graph, model, loss, made)


PLAIN = {
    "resnet": (
        lambda: ResNet(blocks=(1, 2), width=4, classes=7),
        lambda b: {"images": torch.randn(b, 3, 32, 32), "labels": torch.randint(0, 7, (b,))},
    ),
    "unet": (
        lambda: UNet3D(channels=2, width=4, levels=3, classes=3),
        lambda b: {
            "volumes": torch.randn(b, 2, 8, 8, 8),
            "labels": torch.randint(0, 3, (b, 8, 8, 8)),
        },
    ),
    "wide-deep": (
        lambda: WideDeep(rows=50, dim=8, fields=5, hidden=(16, 8)),
        lambda b: {
            "ids": torch.randint(0, 50, (b, 5)),
            "weights": torch.rand(b, 5),
            "labels": torch.randint(0, 2, (b,)).float(),
        },
    ),
    "face-head": (
        lambda: FaceHead(blocks=(1, 1), width=4, feature=8, identities=31),
        lambda b: {"images": torch.randn(b, 3, 32, 32), "labels": torch.randint(0, 31, (b,))},
    ),
}


@pytest.mark.parametrize("family", PLAIN)
def test_a_plain_module_trains_the_same_as_its_graph(family, run_graph):
    torch.manual_seed(0)
    build, feed = PLAIN[family]
    module = build().double()
    inputs = {k: v.double() if v.is_floating_point() else v for k, v in feed(BATCH).items()}
    graph = capture_module(
        module,
        lambda sizes: {
            name: torch.zeros(
                (sizes["batch"], *tensor.shape[1:]), dtype=tensor.dtype, device="meta"
            )
            for name, tensor in inputs.items()
        },
        symbols={"batch": 96},
        name=family,
    )
    assert graph.notes == ()
    assert [t.name for t in graph.tensors if t.role == "label"] == ["labels"]
    reference = copy.deepcopy(module)
    loss = reference(**inputs)
    made = run_graph(graph, reference, inputs, symbols={"batch": BATCH})
    torch.testing.assert_close(made[graph.loss], loss, rtol=1e-12, atol=1e-12)
    assert_same_training(graph, reference, loss, made, rtol=1e-9)


def test_layers_of_one_model_are_structurally_equal(config):
    for family, prefix in (("llama", "model.layers"), ("gpt2", "transformer.h"), ("bert", "layer")):
        graph = capture_hf(config(family), batch=64, seq=32)

        def layer(number, graph=graph, prefix=prefix):
            mark = f"{prefix}.{number}."
            return [
                (op.kind, op.attrs, op.name.split(mark)[1]) for op in graph.ops if mark in op.name
            ]

        assert layer(0)
        assert layer(0) == layer(1)


def test_a_language_model_says_its_ops_in_canonical_kinds(config):
    llama = capture_hf(config("llama"), batch=64, seq=32)
    # per layer: 7 multiplications, 4 views into heads, 1 back, each a reshape and a transpose
    assert Counter(op.kind for op in llama.ops if ".layers.1." in op.name) == {
        "rms_norm": 2, "linear": 7, "reshape": 4, "transpose": 4, "rotary": 2, "attention": 1,
        "add": 2, "silu": 1, "mul": 1,
    }  # fmt: skip
    attention = [op for op in llama.ops if op.kind == "attention"]
    assert all(op.attrs["causal"] and len(op.inputs) == 3 for op in attention)
    # keys and values keep their own two heads
    assert llama.tensor(attention[0].inputs[1]).shape == ("batch", 2, "seq", 8)

    bert = capture_hf(config("bert"), batch=64, seq=32)
    assert all(
        not op.attrs["causal"] and len(op.inputs) == 3 for op in bert.ops if op.kind == "attention"
    )

    mixtral = capture_hf(config("mixtral"), batch=64, seq=32)
    layer = Counter(op.kind for op in mixtral.ops if ".layers.1.mlp." in op.name)
    assert layer == {
        "linear": 1, "softmax": 1, "topk": 1, "sum": 1, "div": 1, "moe_dispatch": 1,
        "expert_matmul": 2, "split": 1, "silu": 1, "mul": 1, "moe_combine": 1,
    }  # fmt: skip
    dispatch = next(op for op in mixtral.ops if op.kind == "moe_dispatch")
    # 2 of 4 experts: half of the sequence each
    assert mixtral.tensor(dispatch.outputs[0]).shape == (4, "batch", "seq//2", 32)
