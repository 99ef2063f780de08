"""Operators registered by a user: a fused norm, and a sum over the batch."""

import torch

T = torch.Tensor


@torch.library.custom_op("meshwright_tests::fused_norm", mutates_args=())
def fused_norm(x: T, weight: T, eps: float) -> T:
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * weight


@fused_norm.register_fake
def _(x: T, weight: T, eps: float) -> T:
    del weight, eps
    return torch.empty_like(x)


def _save(ctx, inputs, output) -> None:
    x, weight, ctx.eps = inputs
    del output
    ctx.save_for_backward(x, weight)


def _fused_norm_backward(ctx, gradient: T) -> tuple[T, T, None]:
    x, weight = ctx.saved_tensors
    scale = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + ctx.eps)
    inner = gradient * weight
    along = (inner * x).mean(-1, keepdim=True)
    of_weight = (gradient * x * scale).flatten(0, -2).sum(0)
    return inner * scale - x * scale**3 * along, of_weight, None


torch.library.register_autograd(
    "meshwright_tests::fused_norm", _fused_norm_backward, setup_context=_save
)


@torch.library.custom_op("meshwright_tests::batch_centered", mutates_args=())
def batch_centered(x: T) -> T:
    return x - x.mean(0, keepdim=True)


@batch_centered.register_fake
def _(x: T) -> T:
    return torch.empty_like(x)


torch.library.register_autograd(
    "meshwright_tests::batch_centered",
    lambda _, gradient: gradient - gradient.mean(0, keepdim=True),
)


@torch.library.custom_op("meshwright_tests::mixed", mutates_args=())
def mixed(x: T, dims: list[int]) -> T:
    means = [x.mean(dim, keepdim=True) for dim in dims]
    return x.sin() + sum(means, torch.zeros_like(x))


@mixed.register_fake
def _(x: T, dims: list[int]) -> T:
    del dims
    return torch.empty_like(x)


def _save_input(ctx, inputs, output) -> None:
    x, ctx.dims = inputs
    del output
    ctx.save_for_backward(x)


def _mixed_backward(ctx, gradient: T) -> tuple[T, None]:
    (x,) = ctx.saved_tensors
    means = [gradient.mean(dim, keepdim=True) for dim in ctx.dims]
    return gradient * x.cos() + sum(means, torch.zeros_like(x)), None


torch.library.register_autograd(
    "meshwright_tests::mixed", _mixed_backward, setup_context=_save_input
)


@torch.library.custom_op("meshwright_tests::double_in_place", mutates_args=("x",))
def double_in_place(x: T) -> None:
    x.mul_(2)


double_in_place.register_fake(lambda _: None)


@torch.library.custom_op("meshwright_tests::gelu", mutates_args=())
def gelu(self: T) -> T:  # another function than PyTorch's of this name
    return self * 3


gelu.register_fake(torch.empty_like)
torch.library.register_autograd("meshwright_tests::gelu", lambda _, gradient: gradient * 3)
