"""The operator graph: the forward program, without weights.

Tensors have names. At most one op produces a tensor; a tensor without a producer is an input,
parameter, buffer, constant, label or cache. Dims that scale with batch or sequence are symbolic
(`meshwright.schema.sizes`). The backward pass is not part of the graph; it follows from the rules.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NewType

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

SHOWN_KINDS = 8  # chosen: kinds of ops in the table of a notebook

if TYPE_CHECKING:
    import networkx as nx

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

# chosen: ten times the largest graph that the searches support; a name fits in a table row
MAX_OPS = 200_000
MAX_TENSORS = 1_000_000
MAX_RANK = 16
MAX_NAME = 512
MAX_PORTS = 4096
ATTRS_DEPTH = 3  # the nesting of attributes in a request: request, graph, ops, op

Name = str


class Tensor(Model):
    """A tensor: one value of the program."""

    naming: ClassVar[tuple[str, ...]] = ("name",)
    content: ClassVar[Any] = itemgetter("shape", "dtype", "role", "trainable")

    name: Name = Field(description="The name of the tensor, unique in the graph.")
    shape: tuple[Whole | str, ...] = Field(
        description="The size of each dim: an integer, or an expression in the symbols of the "
        "graph."
    )
    dtype: DType = Field(description="The data type of the elements.")
    role: Role = Field(
        default="activation",
        description="The role of the tensor. A `cache` persists between inference steps and is "
        "updated in place.",
    )
    trainable: bool = Field(
        default=True,
        description="Whether the tensor has a gradient. It applies to parameters only.",
    )

    def dims(self, symbols: Mapping[str, int]) -> tuple[int, ...]:
        """The shape in whole numbers."""
        return tuple(size_value(size, symbols) for size in self.shape)


class Op(Model):
    """An operation of the program."""

    naming: ClassVar[tuple[str, ...]] = ("name", "inputs", "outputs", "module")

    name: Name = Field(description="The name of the op, unique in the graph.")
    kind: Line = Field(description="The kind of the op, which selects its sharding rule.")
    inputs: tuple[Name, ...] = Field(
        default=(), description="The names of the input tensors, by position."
    )
    outputs: tuple[Name, ...] = Field(description="The names of the output tensors, by position.")
    attrs: dict[str, Any] = Field(default_factory=dict, description="The attributes of the op.")
    module: Line = Field(
        default="",
        description="The path of the module that ran the op, outermost first, separated by dots.",
    )
    strategy: dict[str, tuple[str, ...]] | None = Field(
        default=None,
        description="The strategy that the user prefers: the mesh axes of each factor of the rule.",
    )
    rule: ShardingRule | None = Field(
        default=None,
        description="The sharding rule of the op, if its kind is unknown or the rule of its kind "
        "does not apply.",
    )

    @staticmethod
    def content(fields: Mapping[str, Any]) -> Hashable:
        """A key that is equal for ops whose fields differ in their names only."""
        attrs, strategy = fields["attrs"], fields["strategy"]
        return (
            fields["kind"],
            repr(attrs) if attrs else "",
            repr(strategy) if strategy is not None else "",
            id(fields["rule"]),
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
    """An operator graph. The constructor raises GraphError if the graph is not a valid program."""

    prefix: ClassVar[str] = "graph"
    error: ClassVar[type[GraphError]] = GraphError

    schema_version: Literal[1] = Field(default=1, description="The version of the schema.")
    name: Line = Field(default="", description="The name of the graph.")
    symbols: dict[str, Whole] = Field(
        default_factory=dict, description="The default value of each symbol that sizes use."
    )
    tensors: tuple[Tensor, ...] = Field(description="The tensors of the program.")
    ops: tuple[Op, ...] = Field(description="The ops of the program.")
    outputs: tuple[Name, ...] = Field(description="The names of the output tensors.")
    loss: Name | None = Field(
        default=None,
        description="The name of the loss tensor, which has one element. None: the graph has no "
        "loss.",
    )
    notes: tuple[str, ...] = Field(
        default=(), description="Remarks of the capture on the graph, in sentences."
    )

    @model_validator(mode="before")
    @classmethod
    def _check_limits(cls, value: Any) -> Any:
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
    def _check(self) -> Graph:
        if "_checked" in self.__dict__:  # every document that includes the graph validates it again
            return self
        self._check_symbols()
        self._check_tensors()
        self._check_ops()
        self._check_ends()
        self.topological_order()
        self.__dict__["_checked"] = True
        return self

    def tensor(self, name: str) -> Tensor:
        """The tensor of this name; raises KeyError if there is none."""
        return self._index[name]

    @property
    def _index(self) -> dict[str, Tensor]:
        index: dict[str, Tensor] | None = self.__dict__.get("_by_name")
        if index is None:
            index = {tensor.name: tensor for tensor in self.tensors}
            self.__dict__["_by_name"] = index
        return index

    def _html_rows(self) -> Iterator[tuple[str, str]]:
        shapes = self.instantiate({})
        sizes = [math.prod(shapes[own.name]) for own in self.tensors if own.role == "parameter"]
        yield "id", self.id
        yield "name", self.name
        yield "symbols", ", ".join(f"{name} = {size:,}" for name, size in self.symbols.items())
        yield "parameters", f"{sum(sizes):,} elements in {len(sizes):,} tensors"
        yield "ops", f"{len(self.ops):,}"
        for kind, count in Counter(op.kind for op in self.ops).most_common(SHOWN_KINDS):
            yield f"ops of kind {kind}", f"{count:,}"
        yield "outputs", ", ".join(self.outputs[:SHOWN_KINDS])

    def producers(self) -> dict[str, Op]:
        """The producer of each tensor, by the name of the tensor."""
        return {name: op for op in self.ops for name in op.outputs}

    def topological_order(self) -> tuple[Op, ...]:
        """A topological order of the ops: the listed order if that is one.

        Computed once. Raises GraphError if the graph has a cycle.
        """
        order: tuple[Op, ...] | None = self.__dict__.get("_order")
        if order is None:
            order = self.__dict__["_order"] = in_order(self.ops)
        return order

    def instantiate(self, symbols: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
        """The shape of each tensor in elements, by name; `symbols` replace the graph's values."""
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

    def to_networkx(self) -> nx.MultiDiGraph:
        """The graph as a networkx graph: ops are nodes, tensors are edges.

        Raises Unavailable if networkx (the extra `graphs`) is not installed.

        Attributes: `meshwright.schema.networkx_graphs.graph_to_networkx`.
        """
        from meshwright.schema.networkx_graphs import graph_to_networkx  # imports this module

        return graph_to_networkx(self)

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
                f"tensor {tensor.name!r} has {len(tensor.shape)} dims. Use at most {MAX_RANK}",
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
                f"tensor {tensor.name!r} has {elements:.3g} elements. Use at most 2^53",
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
            if op.attrs and (text := repr(op.attrs)) not in attrs:
                self._check_attrs(op, pointer)
                attrs.add(text)
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
                    f"op {op.name!r} has {len(op.inputs) + len(op.outputs)} inputs and outputs. "
                    f"Use at most {MAX_PORTS}",
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
                        f"tensor {name!r} is an output of op {op.name!r} but has the role "
                        f"{index[name].role!r}. Give it the role activation",
                        pointer=f"{pointer}/outputs/{place}",
                    )
            if op.rule is not None:
                self._check_rule(op, op.rule, pointer)

    def _is_joined(self) -> bool:
        """Whether the names, inputs and outputs of all ops are valid, checked together."""
        outputs = [name for op in self.ops for name in op.outputs]
        index = self._index
        return (
            _are_names([op.name for op in self.ops])
            and all(op.outputs for op in self.ops)
            and max([len(op.inputs) + len(op.outputs) for op in self.ops], default=0) <= MAX_PORTS
            and len({*outputs}) == len(outputs)
            and index.keys() >= {*outputs}.union(*[op.inputs for op in self.ops])
            and {index[name].role for name in outputs} <= {"activation"}
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
        outputs = {name for op in self.ops for name in op.outputs}
        for tensor in self.tensors:
            if tensor.role == "activation" and tensor.name not in outputs:
                raise GraphError(
                    f"tensor {tensor.name!r} has the role 'activation' but no producer. Give it "
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
    """Whether all strings are valid names, and unique."""
    return (
        len({*names}) == len(names)
        and all(names)
        and max(map(len, names), default=0) <= MAX_NAME
        and "".join(names).isprintable()
    )


def _check_name(item: str, name: str, pointer: str) -> None:
    if not name or len(name) > MAX_NAME or not name.isprintable():
        excerpt = name if len(name) <= 40 else name[:40] + "…"
        raise GraphError(
            f"{item} name {excerpt!r} must have 1 to {MAX_NAME} printable characters",
            pointer=f"{pointer}/name",
        )
