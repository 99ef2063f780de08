"""Four networks of MindSpore's operators, as recipes: an MLP, GPT with 4 layers, ReID, Wide&Deep.

Op for op those of bench/mindspore_models.py, but for ReID's loss, which is written out: MindSpore's
own loss cannot be cut along the classes.
"""

from __future__ import annotations

from collections.abc import Mapping

import mindspore as ms
from mindspore import Parameter, Tensor, nn, ops
from mindspore.common.initializer import initializer

from meshwright.capture import MindSporeRecipe

Sizes = Mapping[str, int]


def weight(name: str, *shape: int) -> Parameter:
    return Parameter(initializer("zeros", shape, ms.float16), name=name)


def blank(dtype: object, *shape: int) -> Tensor:
    return Tensor(shape=shape, dtype=dtype)


class Linear(nn.Cell):
    """A product and an addition."""

    def __init__(self, name: str, narrow: int, wide: int) -> None:
        super().__init__()
        self.w, self.b = weight(f"{name}.w", narrow, wide), weight(f"{name}.b", wide)
        self.matmul, self.add = ops.MatMul(), ops.Add()

    def construct(self, x):
        return self.add(self.matmul(x, self.w), self.b)


class ClassLoss(nn.Cell):
    """Cross entropy with whole rows of numbers for the labels, and its mean."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.one_hot, self.cast = ops.OneHot(), ops.Cast()
        self.ce, self.mean = ops.SoftmaxCrossEntropyWithLogits(), ops.ReduceMean()
        self.yes, self.no = Tensor(1.0, ms.float32), Tensor(0.0, ms.float32)
        self.classes = classes

    def construct(self, logits, label):
        target = self.one_hot(label, self.classes, self.yes, self.no)
        loss, _ = self.ce(self.cast(logits, ms.float32), target)
        return self.mean(loss, 0)


class WideLoss(nn.Cell):
    """The same of single operators, each of which may be cut along the classes."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.cast, self.one_hot = ops.Cast(), ops.OneHot()
        self.top, self.shift = ops.ReduceMax(keep_dims=True), ops.Sub()
        self.exp, self.total, self.log = ops.Exp(), ops.ReduceSum(), ops.Log()
        self.pick, self.picked = ops.Mul(), ops.ReduceSum()
        self.sub, self.mean = ops.Sub(), ops.ReduceMean()
        self.yes, self.no = Tensor(1.0, ms.float32), Tensor(0.0, ms.float32)
        self.classes = classes

    def construct(self, logits, label):
        z = self.cast(logits, ms.float32)
        z = self.shift(z, self.top(z, 1))
        total = self.log(self.total(self.exp(z), 1))
        target = self.one_hot(label, self.classes, self.yes, self.no)
        return self.mean(self.sub(total, self.picked(self.pick(z, target), 1)), 0)


class Mlp(nn.Cell):
    def __init__(self, hidden: int, classes: int) -> None:
        super().__init__()
        wide = 4 * hidden
        self.fc1 = Linear("fc1", hidden, wide)
        self.fc2 = Linear("fc2", wide, wide)
        self.fc3 = Linear("fc3", wide, classes)
        self.act, self.act2 = ops.ReLU(), ops.ReLU()
        self.loss = ClassLoss(classes)

    def construct(self, x, label):
        return self.loss(self.fc3(self.act2(self.fc2(self.act(self.fc1(x))))), label)


class Block(nn.Cell):
    def __init__(self, name: str, batch: int, seq: int, hidden: int, heads: int) -> None:
        super().__init__()
        self.g1, self.b1 = weight(f"{name}.ln1.g", hidden), weight(f"{name}.ln1.b", hidden)
        self.g2, self.b2 = weight(f"{name}.ln2.g", hidden), weight(f"{name}.ln2.b", hidden)
        self.ln1, self.ln2 = ops.LayerNorm(-1, -1), ops.LayerNorm(-1, -1)
        self.q, self.k = Linear(f"{name}.q", hidden, hidden), Linear(f"{name}.k", hidden, hidden)
        self.v, self.o = Linear(f"{name}.v", hidden, hidden), Linear(f"{name}.o", hidden, hidden)
        self.up = Linear(f"{name}.up", hidden, 4 * hidden)
        self.down = Linear(f"{name}.down", 4 * hidden, hidden)
        self.rq, self.rk, self.rv, self.ro = (ops.Reshape() for _ in range(4))
        self.tq, self.tk, self.tv, self.to = (ops.Transpose() for _ in range(4))
        self.qk, self.pv = ops.BatchMatMul(transpose_b=True), ops.BatchMatMul()
        self.scale, self.mask, self.softmax = ops.Mul(), ops.Add(), ops.Softmax(-1)
        self.gelu, self.res1, self.res2 = ops.GeLU(), ops.Add(), ops.Add()
        self.split = (batch, seq, heads, hidden // heads)
        self.rows = (batch * seq, hidden)
        self.factor = Tensor((hidden // heads) ** -0.5, ms.float16)

    def construct(self, x, mask):
        y, _, _ = self.ln1(x, self.g1, self.b1)
        q = self.tq(self.rq(self.q(y), self.split), (0, 2, 1, 3))
        k = self.tk(self.rk(self.k(y), self.split), (0, 2, 1, 3))
        v = self.tv(self.rv(self.v(y), self.split), (0, 2, 1, 3))
        p = self.softmax(self.mask(self.scale(self.qk(q, k), self.factor), mask))
        z = self.ro(self.to(self.pv(p, v), (0, 2, 1, 3)), self.rows)
        x = self.res1(x, self.o(z))
        y, _, _ = self.ln2(x, self.g2, self.b2)
        return self.res2(x, self.down(self.gelu(self.up(y))))


class Gpt(nn.Cell):
    def __init__(
        self, batch: int, seq: int, layers: int, hidden: int, heads: int, vocab: int
    ) -> None:
        super().__init__()
        self.blocks = nn.CellList(
            [Block(f"blocks.{i}", batch, seq, hidden, heads) for i in range(layers)]
        )
        self.table = weight("wte", vocab, hidden)
        self.g, self.b = weight("ln.g", hidden), weight("ln.b", hidden)
        self.gather, self.reshape, self.ln = ops.Gather(), ops.Reshape(), ops.LayerNorm(-1, -1)
        self.head, self.wh = ops.MatMul(), weight("head.w", hidden, vocab)
        self.loss = ClassLoss(vocab)
        self.rows = (batch * seq, hidden)

    def construct(self, ids, mask, label):
        x = self.reshape(self.gather(self.table, ids, 0), self.rows)
        for block in self.blocks:
            x = block(x, mask)
        x, _, _ = self.ln(x, self.g, self.b)
        return self.loss(self.head(x, self.wh), label)


class Reid(nn.Cell):
    def __init__(self, classes: int) -> None:
        super().__init__()
        self.c1 = ops.Conv2D(64, 3, pad_mode="same", stride=2)
        self.c2 = ops.Conv2D(512, 3, pad_mode="same", stride=2)
        self.w1, self.w2 = weight("w1", 64, 3, 3, 3), weight("w2", 512, 64, 3, 3)
        self.r1, self.r2, self.pool = ops.ReLU(), ops.ReLU(), ops.ReduceMean()
        self.feat = Linear("feat", 512, 2048)
        self.fc, self.wf = ops.MatMul(), weight("wf", 2048, classes)
        self.loss = WideLoss(classes)

    def construct(self, image, label):
        x = self.r2(self.c2(self.r1(self.c1(image, self.w1)), self.w2))
        return self.loss(self.fc(self.feat(self.pool(x, (2, 3))), self.wf), label)


class WideDeep(nn.Cell):
    def __init__(self, batch: int, vocab: int) -> None:
        super().__init__()
        fields, dim = 39, 80
        self.deep, self.wide = weight("deep.t", vocab, dim), weight("wide.t", vocab, 1)
        self.deep_gather, self.wide_gather = ops.Gather(), ops.Gather()
        self.deep_mul, self.wide_mul = ops.Mul(), ops.Mul()
        self.sum, self.reshape, self.add = ops.ReduceSum(), ops.Reshape(), ops.Add()
        dims = [fields * dim, 1024, 512, 256, 128, 1]
        self.fcs = nn.CellList([Linear(f"fcs.{i}", dims[i], dims[i + 1]) for i in range(5)])
        self.acts = nn.CellList([nn.ReLU() for _ in range(4)])
        self.ce, self.mean = ops.SigmoidCrossEntropyWithLogits(), ops.ReduceMean()
        self.rows = (batch, fields * dim)

    def construct(self, ids, value, label):
        wide = self.sum(self.wide_mul(self.wide_gather(self.wide, ids, 0), value), 1)
        x = self.deep_mul(self.deep_gather(self.deep, ids, 0), value)
        x = self.reshape(x, self.rows)
        for layer in range(5):
            x = self.fcs[layer](x)
            if layer < 4:
                x = self.acts[layer](x)
        return self.mean(self.ce(self.add(x, wide), label), (0, 1))


def mlp() -> MindSporeRecipe:
    hidden, batch, classes = 4096, 64, 1000

    def inputs(sizes: Sizes) -> tuple[Tensor, ...]:
        return blank(ms.float16, sizes["batch"], hidden), blank(ms.int32, sizes["batch"])

    return MindSporeRecipe("mlp", lambda _: Mlp(hidden, classes), inputs, {"batch": batch})


def gpt() -> MindSporeRecipe:
    batch, seq, hidden, heads, vocab, layers = 8, 1024, 4096, 32, 51200, 4

    def network(sizes: Sizes) -> nn.Cell:
        return Gpt(sizes["batch"], sizes["seq"], layers, hidden, heads, vocab)

    def inputs(sizes: Sizes) -> tuple[Tensor, ...]:
        rows, long = sizes["batch"], sizes["seq"]
        mask = blank(ms.float16, 1, 1, long, long)
        return blank(ms.int32, rows, long), mask, blank(ms.int32, rows * long)

    return MindSporeRecipe("gpt", network, inputs, {"batch": batch, "seq": seq})


def reid() -> MindSporeRecipe:
    batch, classes = 4096, 2**20

    def inputs(sizes: Sizes) -> tuple[Tensor, ...]:
        return blank(ms.float16, sizes["batch"], 3, 64, 32), blank(ms.int32, sizes["batch"])

    return MindSporeRecipe("reid", lambda _: Reid(classes), inputs, {"batch": batch})


def widedeep() -> MindSporeRecipe:
    batch, vocab = 16384, 2**21

    def inputs(sizes: Sizes) -> tuple[Tensor, ...]:
        rows = sizes["batch"]
        value = blank(ms.float16, rows, 39, 1)
        return blank(ms.int32, rows, 39), value, blank(ms.float16, rows, 1)

    return MindSporeRecipe(
        "widedeep", lambda sizes: WideDeep(sizes["batch"], vocab), inputs, {"batch": batch}
    )


class Odd(nn.Cell):
    """Operators of functions, a strategy of the user's own, and an operator without a kind."""

    def __init__(self) -> None:
        super().__init__()
        self.w = weight("w", 512, 512)
        self.matmul = ops.MatMul().shard(((4, 1), (1, 2)), ((4, 2),))
        self.odd, self.mean = ops.Lgamma(), ops.ReduceMean()

    def construct(self, x):
        return self.mean(self.odd(ops.relu(self.matmul(x, self.w)) + 1.5), (0, 1))


class Collective(nn.Cell):
    """A network with a hand-written collective, as HYBRID_PARALLEL has them."""

    def __init__(self) -> None:
        super().__init__()
        self.reduce, self.mean = ops.AllReduce(), ops.ReduceMean()

    def construct(self, x):
        return self.mean(self.reduce(x), (0, 1))


def rows(sizes: Sizes) -> tuple[Tensor, ...]:
    return (blank(ms.float16, sizes["batch"], 512),)


def odd() -> MindSporeRecipe:
    return MindSporeRecipe("odd", lambda _: Odd(), rows, {"batch": 8})


def collective() -> MindSporeRecipe:
    return MindSporeRecipe("collective", lambda _: Collective(), rows, {"batch": 8})
