"""Rotary embeddings of halves and of elements in turn, real and complex."""

import itertools

import pytest
import torch


def table(length=5, half=3):
    angle = torch.randn(1, length, half)
    return angle.cos(), angle.sin()


def parts(x, is_interleaved):
    if is_interleaved:
        return x[..., ::2], x[..., 1::2]
    return x.chunk(2, dim=-1)


def rotate(x, cos, sin, *, before=False, after=False, heads=1):
    """before, after: whether pairs are elements in turn; heads: their dim."""
    cos, sin = cos.unsqueeze(heads), sin.unsqueeze(heads)
    a, b = parts(x, before)
    first, second = a * cos - b * sin, b * cos + a * sin
    if after:
        return torch.stack((first, second), dim=-1).flatten(-2)
    return torch.cat((first, second), dim=-1)


def rotate_complex(x, angle):
    """x [b, s, h, d] times polar(1, angle), pair by pair."""
    turn = torch.polar(torch.ones_like(angle), angle)[:, :, None, :]
    pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * turn).flatten(3).type_as(x)


def test_one_pair_by_hand():
    # (1, 2) turned by a quarter is (-2, 1)
    quarter = torch.zeros(1, 1, 1), torch.ones(1, 1, 1)
    x = torch.tensor([1.0, 2.0]).reshape(1, 1, 1, 2)
    assert rotate(x, *quarter).flatten().tolist() == [-2.0, 1.0]
    turned = rotate_complex(x, torch.full((1, 1, 1), torch.pi / 2))
    torch.testing.assert_close(turned.flatten(), torch.tensor([-2.0, 1.0]))


@pytest.mark.parametrize(
    ("before", "after", "heads"), list(itertools.product((False, True), (False, True), (1, 2)))
)
def test_rotations_of_pairs_are_rotary(before, after, heads, kinds):
    def function(x, cos, sin):
        return rotate(x, cos, sin, before=before, after=after, heads=heads)

    shape = (2, 4, 5, 6) if heads == 1 else (2, 5, 4, 6)
    made = kinds(function, torch.randn(shape), *table())
    assert made.count("rotary") == 1
    assert not {"mul", "add", "sub", "stack"} & set(made)


def test_one_head_for_all_is_rotary(kinds):
    assert "rotary" in kinds(rotate, torch.randn(2, 1, 5, 6), *table())


def test_elements_taken_from_pairs_are_in_turn(kinds):
    def function(x, cos, sin):
        a, b = x.unflatten(-1, (-1, 2)).unbind(-1)
        cos, sin = cos[:, None], sin[:, None]
        return torch.stack((a * cos - b * sin, b * cos + a * sin), dim=-1).flatten(-2)

    assert "rotary" in kinds(function, torch.randn(2, 4, 5, 6), *table())


@pytest.mark.parametrize("heads", [1, 2])
def test_elements_turned_in_place_are_rotary(heads, kinds):
    def function(x, cos, sin):
        cos, sin = (t.repeat_interleave(2, -1).unsqueeze(heads) for t in (cos, sin))
        turned = torch.stack((-x[..., 1::2], x[..., ::2]), dim=-1).flatten(-2)
        return x * cos + turned * sin

    shape = (2, 4, 5, 6) if heads == 1 else (2, 5, 4, 6)
    made = kinds(function, torch.randn(shape), *table())
    assert made.count("rotary") == 1
    assert not {"mul", "add", "neg", "stack"} & set(made)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda a, b, c, s: (a * c + b * s, b * c + a * s),
        lambda a, b, c, s: (a * c - b * s, b * c - a * s),
        lambda a, b, c, s: (a * c - b * s, b * s + a * c),
        lambda a, b, c, s: (b * c - a * s, b * c + a * s),
    ],
)
def test_another_turn_stays(wrong, kinds):
    def function(x, cos, sin):
        return torch.cat(wrong(*parts(x, False), cos[:, None], sin[:, None]), dim=-1)

    assert "rotary" not in kinds(function, torch.randn(2, 4, 5, 6), *table())


def test_a_product_of_complex_numbers_is_rotary(kinds):
    made = kinds(rotate_complex, torch.randn(2, 5, 4, 6), torch.randn(1, 5, 3))
    assert made.count("rotary") == 1
    assert not [kind for kind in made if "." in kind or kind in ("mul", "sub", "stack")]


def test_other_arithmetic_of_complex_numbers_is_lowered_to_pairs(kinds):
    def function(x, angle):
        z = torch.view_as_complex(x.reshape(2, 3, 2)) * 2
        w = torch.polar(angle.exp(), angle)
        moved = torch.cat((z + w, z - w), dim=0).transpose(0, 1)[1:]
        return torch.view_as_real(moved * moved), (z * w).real, torch.complex(angle, angle).imag

    made = kinds(function, torch.randn(2, 6), torch.randn(2, 3))
    assert not [kind for kind in made if "." in kind]


def test_an_unknown_op_on_complex_numbers_keeps_all_of_them(kinds):
    def function(x):
        return torch.view_as_real(torch.view_as_complex(x).exp())

    assert "aten.view_as_complex.default" in kinds(function, torch.randn(3, 2))
