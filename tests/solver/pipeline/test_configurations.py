"""Which numbers of stages are tried."""

from __future__ import annotations

import pytest

from meshwright.schema import Pipeline
from meshwright_solver.pipeline.configurations import configurations, virtual_counts
from meshwright_solver.pipeline.stage_graph import Anatomy
from tests.solver.layered import layered
from tests.solver.requests import toy_request
from tests.solver.small_graphs import topology


@pytest.mark.parametrize(
    ("layers", "ranks", "published"),
    [
        (96, 8, 3),  # GPT-3 on 64 A100: Korthikanti et al. 2022, table 5
        (126, 16, 4),  # Llama 3 405B: arXiv 2407.21783, section 3.3.2, 8 or 7 layers a rank
        (32, 4, 8),  # Mixtral 8x7B: Megatron-LM, megatron/core/transformer/moe/README.md
        (128, 8, 4),  # GPT 1T: Narayanan et al. 2021 vary it, 16 layers a rank
    ],
)
def test_published_numbers_of_virtual_stages_are_tried(
    layers: int, ranks: int, published: int
) -> None:
    assert published in virtual_counts(layers, ranks)


def test_every_number_of_layers_a_stage_is_tried_once() -> None:
    """12 layers a rank: stages of 6, 4, 3, 2 and 1; of 5 need three, as those of 4 do."""
    assert virtual_counts(96, 8) == (2, 3, 4, 6, 12)
    assert virtual_counts(8, 8) == (2, 4)
    request = toy_request(
        graph=layered(12), topology=topology(2, 2), pipeline=Pipeline(ranks=2, schedule=None)
    )
    found = {
        own.stages_per_rank
        for own in configurations(request, Anatomy(request.graph))
        if own.schedule == "interleaved_1f1b"
    }
    assert found == {2, 3, 6}
