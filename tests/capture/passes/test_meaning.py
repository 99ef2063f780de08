"""No pass changes what a program computes: the loss is the same after each of them."""

import pytest
import torch
import transformers

from meshwright.capture import interpret
from meshwright.capture.export import export_program
from meshwright.capture.names import name_values
from meshwright.capture.passes import PASSES
from meshwright.capture.symbolic_sizes import Witness


@pytest.mark.rotating
@pytest.mark.parametrize("family", ["llama", "gpt2", "bert", "vit"])
def test_the_loss_is_the_same_after_every_pass(family, config):
    settings = config(family)
    torch.manual_seed(0)
    built = transformers.AutoConfig.for_model(**settings)
    head = getattr(transformers, settings["architectures"][0])
    model = head._from_config(built, dtype=torch.float32, attn_implementation="sdpa").eval()
    inputs = {"labels": torch.randint(0, 10, (3,))}
    if family == "vit":
        inputs["pixel_values"] = torch.randn(3, 3, 16, 16)
    else:
        inputs = {name: torch.randint(0, 97, (3, 12)) for name in ("input_ids", "labels")}
    if family == "bert":
        inputs["next_sentence_label"] = torch.randint(0, 2, (3,))
    else:
        built.use_cache = False
    expected = model(**inputs).loss

    with torch.device("meta"):
        empty = head._from_config(built, dtype=torch.float32, attn_implementation="sdpa").eval()
    feed = {name: tensor.to("meta") for name, tensor in inputs.items()}
    program = export_program(empty, feed, witness=Witness())
    values = {**dict(model.named_parameters()), **dict(model.named_buffers()), **inputs}
    sizes = [len(program.nodes)]
    for rewrite in (None, *PASSES):
        if rewrite is not None:
            rewrite(program)
        name_values(program)
        graph = program.to_graph(name=family, symbols={})
        torch.testing.assert_close(interpret(graph, values)[graph.loss], expected)
        sizes.append(len(program.nodes))
    assert sizes[-1] < sizes[0]
