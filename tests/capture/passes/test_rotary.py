"""Rotary embeddings written out."""

import torch


def rotate(x, cos, sin):
    half = x.shape[-1] // 2
    turned = torch.cat((-x[..., half:], x[..., :half]), dim=-1)
    return x * cos.unsqueeze(1) + turned * sin.unsqueeze(1)


def inputs():
    return torch.randn(2, 4, 5, 6), torch.randn(1, 5, 6), torch.randn(1, 5, 6)


def test_a_written_rotation_is_recognised(kinds):
    assert kinds(rotate, *inputs()) == ["rotary"]


def test_a_table_for_each_sequence_is_recognised(kinds):
    x, _, _ = inputs()
    assert kinds(rotate, x, torch.randn(2, 5, 6), torch.randn(2, 5, 6)) == ["rotary"]


def test_tables_that_come_with_a_dim_for_heads_lose_it(kinds):
    x, cos, sin = inputs()
    tables = (cos.unsqueeze(1), sin.unsqueeze(1))
    function = lambda x, c, s: rotate(x, c.squeeze(1), s.squeeze(1))  # noqa: E731
    assert kinds(function, x, *tables) == ["reshape", "reshape", "rotary"]


def test_a_turn_the_other_way_is_left_alone(kinds):
    def backwards(x, cos, sin):
        half = x.shape[-1] // 2
        turned = torch.cat((x[..., half:], -x[..., :half]), dim=-1)
        return x * cos.unsqueeze(1) + turned * sin.unsqueeze(1)

    assert "rotary" not in kinds(backwards, *inputs())


def test_a_turn_of_another_tensor_is_left_alone(kinds):
    def mixed(x, cos, sin):
        half = x.shape[-1] // 2
        y = x * 2
        turned = torch.cat((-y[..., half:], y[..., :half]), dim=-1)
        return x * cos.unsqueeze(1) + turned * sin.unsqueeze(1)

    assert "rotary" not in kinds(mixed, *inputs())
