"""The operator graph: the forward program, without weights.

Tensors are named; each is produced by at most one op, and what no op produces is an input,
parameter, buffer, constant or label. Dims that scale with batch or sequence are symbolic
(`meshwright.schema.sizes`). The backward pass is not part of the graph: it follows from the rules.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any, ClassVar, Literal, NewType

from pydantic import (
    Field,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    field_validator,
    model_validator,
)

from meshwright.schema.canonical import canonical_json
from meshwright.schema.errors import GraphError, InvalidInput, RuleError, TooLarge
from meshwright.schema.model import Document, Line, Model, Whole
from meshwright.schema.order import in_order
from meshwright.schema.rule import ShardingRule
from meshwright.schema.sizes import MAX_SIZE, SYMBOL, size_value, symbols_in

OpId = NewType("OpId", str)
TensorId = NewType("TensorId", str)

Role = Literal["input", "parameter", "buffer", "activation", "constant", "label", "cache"]
DType = Literal[
    "float64", "float32", "bfloat16", "float16", "float8_e4m3", "float8_e5m2", "int64", "int32",
    "int16", "int8", "uint8", "bool", "complex64", "complex128",
]  # fmt: skip
DTYPE_BYTES: Mapping[str, int] = {
    "float64": 8, "float32": 4, "bfloat16": 2, "float16": 2, "float8_e4m3": 1, "float8_e5m2": 1,
    "int64": 8, "int32": 4, "int16": 2, "int8": 1, "uint8": 1, "bool": 1, "complex64": 8,
    "complex128": 16,
}  # fmt: skip

# chosen: ten times the largest graph that the searches are built for; a name fits a table row
MAX_OPS = 200_000
MAX_TENSORS = 1_000_000
MAX_RANK = 16
MAX_NAME = 512
MAX_PORTS = 4096
ATTRS_DEPTH = 3  # request, graph, ops, op: one more level than the list they are checked in

Name = str


class Tensor(Model):
    """One value of the program. `trainable` speaks of parameters only.

    A `cache` is kept between steps of inference and written in place.
    """

    naming: ClassVar[tuple[str, ...]] = ("name",)
    content: ClassVar = itemgetter("shape", "dtype", "role", "trainable")

    name: Name
    shape: tuple[Whole | str, ...]
    dtype: DType
    role: Role = "activation"
    trainable: bool = True

    def dims(self, symbols: Mapping[str, int]) -> tuple[int, ...]:
        """The shape in whole numbers."""
        return tuple(size_value(size, symbols) for size in self.shape)


class Op(Model):
    """One operation. `module` is the path of the module that ran it, outermost first, by dots.

    `strategy` is a user's wish (factor of the rule -> mesh axes); `rule` describes an op whose kind
    is not known, or overrides what is known.
    """

    naming: ClassVar[tuple[str, ...]] = ("name", "inputs", "outputs", "module")

    name: Name
    kind: Line
    inputs: tuple[Name, ...] = ()
    outputs: tuple[Name, ...]
    attrs: dict[str, Any] = Field(default_factory=dict)
    module: Line = ""
    strategy: dict[str, tuple[str, ...]] | None = None
    rule: ShardingRule | None = None

    @staticmethod
    def content(own: Mapping[str, Any]) -> Hashable:
        """Equal where two ops with these fields say the same but for their names."""
        attrs, strategy = own["attrs"], own["strategy"]
        return (
            own["kind"],
            repr(attrs) if attrs else "",
            repr(strategy) if strategy is not None else "",
            id(own["rule"]),
        )

    @field_validator("rule", mode="wrap")
    @classmethod
    def _name_the_op(
        cls, value: Any, validate: ValidatorFunctionWrapHandler, info: ValidationInfo
    ) -> Any:
        try:
            return validate(value)
        except RuleError as wrong:
            raise RuleError(f"op {info.data.get('name')!r}: {wrong.detail}") from None


class Graph(Document):
    """An operator graph. Valid from birth: see GraphError for what is refused."""

    prefix: ClassVar[str] = "graph"
    error: ClassVar[type[GraphError]] = GraphError

    schema_version: Literal[1] = 1
    name: Line = ""
    symbols: dict[str, Whole] = Field(default_factory=dict)
    tensors: tuple[Tensor, ...]
    ops: tuple[Op, ...]
    outputs: tuple[Name, ...]
    loss: Name | None = None
    notes: tuple[str, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _bounded(cls, value: Any) -> Any:
        if isinstance(value, Mapping):
            for field, limit in (("ops", MAX_OPS), ("tensors", MAX_TENSORS)):
                items = value.get(field)
                if isinstance(items, (list, tuple)) and len(items) > limit:
                    raise TooLarge(
                        f"a graph has at most {limit:,} {field}, got {len(items):,}; "
                        "split the model or fold repeated ops into one kind with a rule of its own",
                        pointer=f"/{field}",
                    )
        return value

    @model_validator(mode="after")
    def _valid(self) -> Graph:
        if "_checked" in self.__dict__:  # asked again by every document that the graph is put into
            return self
        self._check_symbols()
        self._check_tensors()
        self._check_ops()
        self._check_ends()
        self.topological_order()
        self.__dict__["_checked"] = True
        return self

    def tensor(self, name: str) -> Tensor:
        """The tensor of this name; KeyError where there is none."""
        return self._index[name]

    @property
    def _index(self) -> dict[str, Tensor]:
        index: dict[str, Tensor] | None = self.__dict__.get("_by_name")
        if index is None:
            index = {tensor.name: tensor for tensor in self.tensors}
            self.__dict__["_by_name"] = index
        return index

    def producers(self) -> dict[str, Op]:
        """Tensor name -> the op that makes it."""
        return {name: op for op in self.ops for name in op.outputs}

    def topological_order(self) -> tuple[Op, ...]:
        """The ops, each after its producers; the listed order where that is already one.

        Found once. Raises GraphError where ops wait for each other in a circle.
        """
        order: tuple[Op, ...] | None = self.__dict__.get("_order")
        if order is None:
            order = self.__dict__["_order"] = in_order(self.ops)
        return order

    def instantiate(self, symbols: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
        """Tensor name -> shape in whole numbers, with `symbols` over the graph's own values."""
        values = {**self.symbols, **symbols}
        for name in symbols:
            if name not in self.symbols:
                known = ", ".join(sorted(self.symbols)) or "none"
                raise GraphError(f"the graph has no symbol {name!r}; its symbols are: {known}")
        shapes = {}
        dims: dict[tuple[int | str, ...], tuple[int, ...]] = {}
        for position, tensor in enumerate(self.tensors):
            try:
                if tensor.shape not in dims:
                    dims[tensor.shape] = tensor.dims(values)
                shapes[tensor.name] = dims[tensor.shape]
            except GraphError as wrong:
                raise GraphError(
                    f"tensor {tensor.name!r}: {wrong.detail}", pointer=f"/tensors/{position}/shape"
                ) from None
        return shapes

    def _check_symbols(self) -> None:
        for name, value in self.symbols.items():
            if not SYMBOL.match(name):
                raise GraphError(f"{name!r} is not a symbol name", pointer="/symbols")
            if not 1 <= value <= MAX_SIZE:
                raise GraphError(
                    f"symbol {name!r} must be 1 to {MAX_SIZE}, got {value}",
                    pointer=f"/symbols/{name}",
                )

    def _check_tensors(self) -> None:
        seen: dict[str, int] = {}
        shapes: set[tuple[int | str, ...]] = set()
        are_names = _are_names([tensor.name for tensor in self.tensors])
        for position, tensor in enumerate(self.tensors):
            if are_names and tensor.shape in shapes:
                continue
            pointer = f"/tensors/{position}"
            _check_name("tensor", tensor.name, pointer)
            if tensor.name in seen:
                raise GraphError(
                    f"tensor {tensor.name!r} is listed twice, at {seen[tensor.name]} and "
                    f"{position}; names are unique",
                    pointer=f"{pointer}/name",
                )
            seen[tensor.name] = position
            if tensor.shape not in shapes:
                self._check_shape(tensor, pointer)
                shapes.add(tensor.shape)

    def _check_shape(self, tensor: Tensor, pointer: str) -> None:
        if len(tensor.shape) > MAX_RANK:
            raise GraphError(
                f"tensor {tensor.name!r} has {len(tensor.shape)} dims, at most {MAX_RANK} do",
                pointer=f"{pointer}/shape",
            )
        try:
            for size in tensor.shape:
                for symbol in symbols_in(size) if isinstance(size, str) else ():
                    if symbol not in self.symbols:
                        raise GraphError(
                            f"size {size!r} uses the symbol {symbol!r}, which the graph does "
                            "not define under symbols"
                        )
            elements = math.prod(tensor.dims(self.symbols))
        except GraphError as wrong:
            raise GraphError(
                f"tensor {tensor.name!r}: {wrong.detail}", pointer=f"{pointer}/shape"
            ) from None
        if elements > MAX_SIZE:
            raise GraphError(
                f"tensor {tensor.name!r} has {elements:.3g} elements, at most 2^53 can be",
                pointer=f"{pointer}/shape",
            )

    def _check_ops(self) -> None:
        seen: set[str] = set()
        maker: dict[str, str] = {}
        attrs: set[str] = set()
        index = self._index
        is_joined = self._is_joined()
        for position, op in enumerate(self.ops):
            pointer = f"/ops/{position}"
            if not is_joined:
                _check_name("op", op.name, pointer)
            if op.attrs and (written := repr(op.attrs)) not in attrs:
                self._check_attrs(op, pointer)
                attrs.add(written)
            if op.rule is not None and is_joined:
                self._check_rule(op, op.rule, pointer)
            if is_joined:
                continue
            if op.name in seen:
                raise GraphError(
                    f"op {op.name!r} is listed twice; names are unique", pointer=pointer
                )
            seen.add(op.name)
            if not op.outputs:
                raise GraphError(f"op {op.name!r} has no outputs", pointer=f"{pointer}/outputs")
            if len(op.inputs) + len(op.outputs) > MAX_PORTS:
                raise GraphError(
                    f"op {op.name!r} has {len(op.inputs) + len(op.outputs)} inputs and outputs, "
                    f"at most {MAX_PORTS} are",
                    pointer=pointer,
                )
            for side, names in (("inputs", op.inputs), ("outputs", op.outputs)):
                for place, name in enumerate(names):
                    if name not in index:
                        raise GraphError(
                            f"op {op.name!r} names the tensor {name!r} in its {side}, "
                            "which is not listed under tensors",
                            pointer=f"{pointer}/{side}/{place}",
                        )
            for place, name in enumerate(op.outputs):
                if name in maker:
                    raise GraphError(
                        f"tensor {name!r} has two producers, ops {maker[name]!r} and {op.name!r}; "
                        "give each result a name of its own",
                        pointer=f"{pointer}/outputs/{place}",
                    )
                maker[name] = op.name
                if index[name].role != "activation":
                    raise GraphError(
                        f"tensor {name!r} is made by op {op.name!r} but has the role "
                        f"{index[name].role!r}; what an op makes is an activation",
                        pointer=f"{pointer}/outputs/{place}",
                    )
            if op.rule is not None:
                self._check_rule(op, op.rule, pointer)

    def _is_joined(self) -> bool:
        """Whether nothing is wrong with any op's name, inputs and outputs, found all at once."""
        made = [name for op in self.ops for name in op.outputs]
        index = self._index
        return (
            _are_names([op.name for op in self.ops])
            and all(op.outputs for op in self.ops)
            and max([len(op.inputs) + len(op.outputs) for op in self.ops], default=0) <= MAX_PORTS
            and len({*made}) == len(made)
            and index.keys() >= {*made}.union(*[op.inputs for op in self.ops])
            and {index[name].role for name in made} <= {"activation"}
        )

    def _check_attrs(self, op: Op, pointer: str) -> None:
        try:
            canonical_json(op.attrs, depth=ATTRS_DEPTH + 1)
        except InvalidInput as wrong:
            raise GraphError(
                f"op {op.name!r}: its attributes cannot be written: {wrong.detail}",
                pointer=f"{pointer}/attrs",
            ) from None

    def _check_rule(self, op: Op, rule: ShardingRule, pointer: str) -> None:
        shapes = [self._index[name].dims(self.symbols) for name in (*op.inputs, *op.outputs)]
        try:
            rule.bind(shapes[: len(op.inputs)], shapes[len(op.inputs) :])
        except RuleError as wrong:
            raise RuleError(f"op {op.name!r}: {wrong.detail}", pointer=f"{pointer}/rule") from None

    def _check_ends(self) -> None:
        made = {name for op in self.ops for name in op.outputs}
        for tensor in self.tensors:
            if tensor.role == "activation" and tensor.name not in made:
                raise GraphError(
                    f"tensor {tensor.name!r} has the role 'activation' but no op makes it; give it "
                    "the role input, parameter, buffer, constant, label or cache",
                    pointer="/tensors",
                )
        ends: Iterable[tuple[str, str]] = [
            *((name, f"/outputs/{i}") for i, name in enumerate(self.outputs)),
            *([(self.loss, "/loss")] if self.loss is not None else []),
        ]
        for name, pointer in ends:
            if name not in self._index:
                raise GraphError(f"output {name!r} is not listed under tensors", pointer=pointer)
        if self.loss is not None and math.prod(self._index[self.loss].dims(self.symbols)) != 1:
            raise GraphError(
                f"the loss {self.loss!r} must have one element, it has the shape "
                f"{list(self._index[self.loss].shape)}",
                pointer="/loss",
            )


def _are_names(names: Sequence[str]) -> bool:
    """Whether all are names, and no two are equal."""
    return (
        len({*names}) == len(names)
        and all(names)
        and max(map(len, names), default=0) <= MAX_NAME
        and "".join(names).isprintable()
    )


def _check_name(what: str, name: str, pointer: str) -> None:
    if not name or len(name) > MAX_NAME or not name.isprintable():
        shown = name if len(name) <= 40 else name[:40] + "…"
        raise GraphError(
            f"{what} name {shown!r} must have 1 to {MAX_NAME} printable characters",
            pointer=f"{pointer}/name",
        )
