"""Every converter: a small call is captured in canonical kinds and keeps its value."""

import pytest
import torch
import torch.nn.functional as F


class Function(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs)


def places(x):
    """Numbers of rows [1, 4]."""
    return x.argmax(1).clamp(max=3)[None]


def square():
    return torch.linspace(-2, 2, 24).reshape(4, 6)


def block():
    return torch.linspace(-2, 2, 48).reshape(2, 4, 6)


def image():
    return torch.linspace(-1, 1, 2 * 4 * 8 * 8).reshape(2, 4, 8, 8).sin()


def assembled(x):
    made = x.new_empty(4, 9)
    made[:, :6] = x
    made[:, 6:] = x[:, :3] * 2
    return made


CASES = {
    "unary": (lambda x: x.exp().neg().tanh().sigmoid().cos().erf(), square),
    "positive": (lambda x: x.abs().add(1).log().sqrt().rsqrt(), square),
    "activations": (lambda x: F.silu(x) + F.relu(x) + F.gelu(x) + F.mish(x), square),
    "shaped": (lambda x: F.leaky_relu(x, 0.2) + F.elu(x) + F.softplus(x), square),
    "scalars": (lambda x: (2 - x) * 3 / 4 + 1 - 0.5, square),
    "numbers on the left": (
        lambda x: torch.add(0.5, torch.sub(2, torch.mul(3, x), alpha=2))
        + torch.div(1.5, x.abs() + 1)
        + (torch.ops.aten.lt.Scalar(x, 1) & (x < 2)).float(),
        square,
    ),
    "scaled sum": (lambda x: torch.add(x, x.T.reshape(4, 6), alpha=3), square),
    "even steps": (lambda x: x * torch.linspace(-1, 2, 6) + torch.linspace(3, -3, 6), square),
    "numbers of a triangle": (
        lambda x: x.sum()
        + torch.triu_indices(4, 6, offset=1)[1].view(2, 7) @ torch.triu_indices(4, 4).mT[:7]
        + torch.tril_indices(3, 6, offset=-1)[0].sum()
        + torch.triu_indices(5, 4, offset=-2)[1].sum(),
        square,
    ),
    "powers": (lambda x: x.pow(2) + (x.abs() + 1).reciprocal() + x.square(), square),
    "powers of a number": (lambda x: 2**x + torch.pow(0.5, x), square),
    "comparison": (lambda x: (x > 0) & ~(x >= 1) | (x == 2), square),
    "extremes": (lambda x: torch.maximum(x, -x) + torch.minimum(x, x + 1), square),
    "bits": (lambda x: (x.long() & 3) | 4, square),
    "where": (
        lambda x: torch.where(x > 0, x, -1.0) + torch.where(x > 0, 2.0, x * 2),
        square,
    ),
    "masked fill": (lambda x: x.masked_fill(x > 0, float("-inf")), square),
    "clamp": (lambda x: x.clamp(min=-1, max=1) + x.clamp_min(0), square),
    "casts": (lambda x: x.double().to(torch.int32).float(), square),
    "in place": (lambda x: x.clone().mul_(2).add_(1).relu_(), square),
    "sums": (lambda x: x.sum() + x.mean(0).sum() + x.sum((0, 1), keepdim=True), block),
    "prod": (lambda x: x.prod(-1), square),
    "any": (lambda x: (x > 0).any(-1) & (x > -5).all(-1), square),
    "max": (lambda x: x.max(-1), square),
    "amin": (lambda x: x.amin((0, 2)) + x.min(), block),
    "argmax": (lambda x: x.argmax(-1, keepdim=True), square),
    "variance": (lambda x: x.var(-1) + x.var(-1, correction=0), square),
    "norm": (lambda x: F.normalize(x, dim=-1), square),
    "softmax": (lambda x: x.softmax(-1) + x.log_softmax(0), square),
    "topk": (lambda x: x.topk(2), square),
    "sort": (lambda x: x.sort(dim=0, descending=True), square),
    "cumsum": (lambda x: x.cumsum(-1), square),
    "views": (lambda x: x.view(8, 6).reshape(2, 24).unflatten(1, (4, 6)).flatten(1), block),
    "ones": (lambda x: x.unsqueeze(0).squeeze(0).unsqueeze(-1).squeeze(-1), block),
    "transposes": (lambda x: x.transpose(0, 1).permute(2, 0, 1).mT.movedim(0, -1), block),
    "expand": (lambda x: x[:, :1].expand(4, 3) + x.sum(0, True)[:, :3].expand(4, 3), square),
    "repeat": (lambda x: x.repeat(2, 1, 3), block),
    "slices": (lambda x: x[1:, :-1, ::2] + x.narrow(0, 0, 1)[:, 1:, 1::2], block),
    "select": (lambda x: x[:, -1] + x.select(1, 0), block),
    "chunk": (lambda x: torch.add(*x.chunk(2, -1)), block),
    "split": (lambda x: x.split([1, 3], 1)[1] + x.split(1, 1)[0], block),
    "unbind": (lambda x: torch.sub(*x.unbind(0)), block),
    "joins": (lambda x: torch.cat([x, x], -1).sum() + torch.stack([x, x], 1).sum(), block),
    "pad": (lambda x: F.pad(x, (1, 2, 0, 1), value=7.0), block),
    "roll": (lambda x: x.roll((1, 2), (0, 1)).flip(0), square),
    "repeated": (lambda x: x.repeat_interleave(3, 1).sum() + x.repeat_interleave(2), square),
    "differences": (lambda x: x.diff(dim=-1) + x.diff(dim=0, prepend=x[:1])[:, 1:], square),
    "written": (
        lambda x: torch.cat(
            [x.slice_scatter(-x[:2], 0, 1, 3), x.select_scatter(x[0] * 3, 0, 2)], 0
        ),
        square,
    ),
    "written views": (assembled, square),
    "rounded quotients": (
        lambda x: x // 0.5 + torch.div(x, 0.4, rounding_mode="trunc"),
        square,
    ),
    "numbers": (lambda x: x * torch.tensor(3.0) + x[[1, 2]].sum() + x[:, [-2, -1]].sum(), square),
    "sum of products": (
        lambda x: torch.baddbmm(x[:, :, :4], x, x.mT, beta=0.5, alpha=2.0)
        + torch.baddbmm(x[:, :, :4], x, x.mT),
        block,
    ),
    "identity": (lambda x: torch.eye(6) + torch.eye(4, 6).sum() + x[:1], square),
    "log sigmoid": (lambda x: F.logsigmoid(x), square),
    "weight norm": (
        lambda x: torch._weight_norm(x, x[:, :1, :1].abs() + torch.ones(2, 1, 1), 0),
        block,
    ),
    "triangles": (lambda x: x.tril() + x.triu(1), square),
    "gather": (lambda x: x.gather(1, x.argmax(-1, keepdim=True)), square),
    "index select": (lambda x: x.index_select(1, torch.arange(3)), square),
    "index": (lambda x: x[torch.arange(3)] + x[:, torch.arange(6)][:3], square),
    "scatter": (
        lambda x: x.scatter(1, x.argmax(-1, True), 0.0)
        + torch.zeros_like(x).scatter_add(1, x.argmax(-1, True), x),
        square,
    ),
    "creation": (lambda x: x + torch.arange(6) + torch.ones(6) + torch.full((6,), 2.0), square),
    "one hot": (lambda x: F.one_hot(x.argmax(-1), 6), square),
    "matmul": (lambda x: x @ x.mT, block),
    "dropout in place": (lambda x: F.dropout(x + 1, 0.0, inplace=True), square),
    "rows by number": (
        lambda x: x.index_add(0, x.argmax(1).clamp(max=3), x, alpha=2)
        + torch.zeros_like(x).index_add(0, x.argmax(1).clamp(max=3), x),
        square,
    ),
    "rows by an index along the row": (
        lambda x: torch.zeros(5, 4).scatter_add(0, places(x).expand(4, 4), x[:, :4]),
        square,
    ),
    "rows into wider rows": (
        lambda x: torch.zeros(4, 9).scatter_add(0, places(x)[0, :, None].expand(4, 6), x),
        square,
    ),
    "embedding bags": (
        lambda x: F.embedding_bag(x.argmax(1).clamp(max=3).reshape(2, 2), x)
        + F.embedding_bag(x.argmin(1).clamp(max=3).reshape(2, 2), x, mode="sum"),
        square,
    ),
    "a list of samples": (
        lambda x: torch.cat([one.reshape(-1) for one in x.unbind(0)]) + torch.stack(
            list(x)
        ).reshape(-1),
        square,
    ),
    "root mean square norm without eps": (
        lambda x: F.rms_norm(x, (6,), torch.ones(6)), block
    ),
    "layer norm": (lambda x: F.layer_norm(x, (4, 6)), block),
    "group norm": (
        lambda x: F.group_norm(x, 2, torch.arange(4).float(), torch.ones(4)),
        image,
    ),
    "conv": (
        lambda x: F.conv2d(x, x[:, :2, :3, :3].repeat(2, 1, 1, 1), padding=1, groups=2),
        image,
    ),
    "conv same": (lambda x: F.conv2d(x, x[:, :, :3, :3], padding="same", dilation=2), image),
    "conv 1d": (lambda x: F.conv1d(x, x[:, :, :3], stride=2), block),
    "conv transpose": (
        lambda x: F.conv_transpose2d(
            x, x[:, :, :3, :3].repeat(2, 1, 1, 1), stride=2, output_padding=1
        ),
        image,
    ),
    "pools": (lambda x: F.max_pool2d(x, 2) + F.avg_pool2d(x, 3, 2, 1), image),
    "adaptive": (lambda x: F.adaptive_avg_pool2d(x, 1) + F.adaptive_avg_pool2d(x, 2), image),
    "upsample": (lambda x: F.interpolate(x, scale_factor=2), image),
    "bilinear": (lambda x: F.interpolate(x, size=(12, 16), mode="bilinear"), image),
    "attention": (
        lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True)
        + F.scaled_dot_product_attention(x, x, x, scale=0.3),
        image,
    ),
    "masked attention": (
        lambda x: F.scaled_dot_product_attention(x, x, x, attn_mask=x[:, :1] > 0),
        image,
    ),
    "cross entropy": (
        lambda x: F.cross_entropy(x, x.argmax(-1), reduction="none")
        + F.cross_entropy(x, x.argmax(-1), ignore_index=5, reduction="sum"),
        square,
    ),
    "spatial cross entropy": (lambda x: F.cross_entropy(x, x.argmax(1)), image),
    "binary cross entropy": (
        lambda x: F.binary_cross_entropy_with_logits(x * 100, (x > 0.3).float()),
        square,
    ),
    "squared error": (lambda x: F.mse_loss(x, x * 2), square),
    "embedding": (lambda x: F.embedding(torch.arange(3), x), square),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_call_keeps_its_value(name, check_capture):
    function, example = CASES[name]
    graph = check_capture(Function(function), example())
    unknown = [op.kind for op in graph.ops if "." in op.kind]
    assert unknown == []


@pytest.mark.parametrize("sparse", [False, True])
def test_an_embedding_says_whether_its_gradient_is_sparse(check_capture, sparse):
    table = torch.nn.Embedding(7, 4, sparse=sparse)
    graph = check_capture(table, torch.arange(3))
    (lookup,) = [op for op in graph.ops if op.kind == "embedding"]
    assert dict(lookup.attrs) == ({"sparse": True} if sparse else {})


def test_a_write_through_a_view_keeps_its_value(check_capture):
    def write(x):
        copy = x.clone()
        copy[:, 0] += 5
        return copy * 2

    check_capture(Function(write), square())


def test_batch_norm_normalises_by_the_batch_in_training(check_capture):
    module = torch.nn.Sequential(torch.nn.Conv2d(4, 4, 1), torch.nn.BatchNorm2d(4))
    graph = check_capture(module, image())
    assert [op.kind for op in graph.ops] == ["conv", "batch_norm"]


def test_an_op_without_a_canonical_kind_keeps_its_name(check_capture):
    graph = check_capture(Function(lambda x: x.unfold(1, 2, 2) + 1), square())
    assert [op.kind for op in graph.ops] == ["aten.unfold.default", "add"]
    (note,) = graph.notes[1:]
    assert note == (
        "no canonical kind for aten.unfold.default in inner; it is kept replicated, because its "
        "results have no dim of the batch. Every device computes all of it and moves 192 B in a "
        "forward pass"
    )


def test_an_unknown_op_with_several_inputs_says_where_they_go(check_capture):
    graph = check_capture(Function(lambda x: torch.hypot(x, x + 1)), square())
    hypot = next(op for op in graph.ops if "hypot" in op.kind)
    assert hypot.attrs["tensors"] == ["self", "other"]


def test_elements_where_a_mask_is_true_are_taken_in_order(check_capture):
    check_capture(Function(lambda x: x.masked_scatter(x > 0, 2 * x)), square())
