"""Equations of einsum, by hand and generated: captured in canonical kinds and trained."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

import pytest
import torch

from meshwright.capture import capture_module
from meshwright.schema.errors import MeshwrightError
from tests.capture.training import check_data_parallel, check_training

KINDS = {"matmul", "linear", "mul", "sum", "transpose", "reshape", "expand", "full"}
DIAGONAL_KINDS = {"arange", "eq", "where"}
LOSS_KINDS = {"tanh", "pow", "mean", "add"}
# an upper-case label has one element, and broadcasts with its lower-case label
SIZES = {"b": "batch", "s": "seq", "t": "seq", "d": 6, "e": 5, "h": 4, "k": 3, "n": 2, "D": 1}
GIVEN = frozenset("bst")  # the labels of inputs; an operand without them is a parameter

EQUATIONS = {
    "projection": "bsd,de->bse",
    "permuted projection": "bsd,de->bes",
    "weight on the left": "de,bsd->bse",
    "projection to heads": "bsd,dhk->bshk",
    "projection to permuted heads": "hkd,bsd->bhsk",
    "projection from heads": "bshk,hkd->bsd",
    "scores": "bshd,bthd->bhst",
    "scores of groups": "bhnsd,bhtd->bhnst",
    "mixed values": "bhst,bthd->bshd",
    "dot product of rows": "bsd,bsd->bs",
    "sum over the sequence": "bsd,bse->bde",
    "outer product of rows": "bsd,bse->bsed",
    "vector": "bsd,d->bs",
    "transpose": "bsd->bds",
    "sum": "bsd->b",
    "full sum": "bnd,bnd->",
    "three factors": "bsd,dk,ke->bse",
    "bilinear": "bsd,bsk,kde->bse",
    "outer product": "bs,d,e->bsde",
    "gated": "bsd,hde,bsh->bse",
    "alphabetical output": "bsd,de",
    "ellipsis": "...d,de->...e",
    "ellipses of two": "...sd,...td->...st",
    "ellipsis in front of another": "...hd,hd->h...",
    "ellipsis summed": "...d->d",
    "broadcast": "bsD,bsd->bsd",
    "diagonal": "bdd->bd",
    "trace": "bsdd,de->bse",
    "diagonal in a product": "bdd,de->be",
}
ELLIPSES = {
    "ellipsis": ("bs", ""),
    "ellipses of two": ("bh", "bh"),
    "ellipsis in front of another": ("bs", ""),
    "ellipsis summed": ("bs",),
}


class Contractions(torch.nn.Module):
    """Equations with inputs and parameters; each has a part of the loss."""

    def __init__(self, equations: Mapping[str, str]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.equations = {name: text.lower() for name, text in equations.items()}
        self.shapes: dict[str, list[int | str]] = {}
        self.weights = torch.nn.ParameterDict()
        for name, text in equations.items():
            for place, labels in enumerate(_operands(name, text)):
                shape = [SIZES[label] for label in labels]
                is_given = bool(GIVEN & set(labels))
                if is_given:
                    self.shapes[f"{name}.{place}".replace(" ", "_").replace(".", "_")] = shape
                # an input is multiplied by a parameter, which shows its gradient
                weight = torch.randn([1] if is_given else shape)
                self.weights[f"{name} {place}"] = torch.nn.Parameter(weight * 0.3 + 1)

    def inputs(self, sizes: Mapping[str, int]) -> dict[str, torch.Tensor]:
        return {
            name: torch.randn([sizes.get(str(size), size) for size in shape])
            for name, shape in self.shapes.items()
        }

    def forward(self, **inputs: torch.Tensor) -> torch.Tensor:
        loss = torch.zeros(())
        for name, text in self.equations.items():
            operands = []
            for place in range(text.count(",") + 1):
                x = inputs.get(f"{name}.{place}".replace(" ", "_").replace(".", "_"))
                weight = self.weights[f"{name} {place}"]
                operands.append(weight if x is None else x * weight)
            loss = loss + torch.einsum(text, *operands).mul(0.3).tanh().square().mean()
        return loss


def _operands(name: str, text: str) -> Sequence[str]:
    terms = text.split("->")[0].split(",")
    dots = ELLIPSES.get(name, ("",) * len(terms))
    return [term.replace("...", dims) for term, dims in zip(terms, dots, strict=True)]


def generated(seed: int) -> str:
    """An equation of one to three operands, with the batch in one of them and a permuted output."""
    rng = random.Random(seed)
    labels = rng.sample("sdehkn", rng.randint(2, 5))
    terms = []
    for _ in range(rng.randint(1, 3)):
        rng.shuffle(labels)
        terms.append("".join(labels[: rng.randint(1, len(labels))]))
    for place in rng.sample(range(len(terms)), rng.randint(1, len(terms))):
        where = rng.randint(0, len(terms[place]))
        terms[place] = f"{terms[place][:where]}b{terms[place][where:]}"
    used = sorted({label for term in terms for label in term} - {"b"})
    kept = [*rng.sample(used, rng.randint(0, min(len(used), 3))), "b"]
    rng.shuffle(kept)
    return f"{','.join(terms)}->{''.join(kept)}"


def test_equations_are_trained_and_shared_over_the_batch():
    module = Contractions(EQUATIONS)
    graph = check_training(module, module.inputs)
    assert {op.kind for op in graph.ops} <= KINDS | DIAGONAL_KINDS | LOSS_KINDS
    check_data_parallel(graph)


@pytest.mark.parametrize("seed", range(3))
def test_generated_equations_are_trained_and_shared_over_the_batch(seed):
    equations = {f"e{place}": generated(100 * seed + place) for place in range(20)}
    module = Contractions(equations)
    graph = check_training(module, module.inputs)
    assert {op.kind for op in graph.ops} <= KINDS | LOSS_KINDS, equations
    check_data_parallel(graph)


def test_a_diagonal_of_unequal_dims_is_refused_in_one_line():
    class Diagonal(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.einsum("bii->bi", x)

    with pytest.raises(MeshwrightError) as refusal:
        capture_module(
            Diagonal(), lambda _: [torch.empty(2, 3, 4, device="meta")], symbols={}, name="case"
        )
    assert "\n" not in str(refusal.value)
