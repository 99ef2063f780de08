"""A jaxpr -> Program: calls inlined, scans unrolled by their length, annotations kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from meshwright.capture.jax import elementwise, layers, shape
from meshwright.capture.node_arithmetic import plain
from meshwright.capture.node_call import Converter, NodeCall
from meshwright.capture.program import Node, Program, Value
from meshwright.capture.witness import Witness
from meshwright.schema.errors import GraphError
from meshwright.schema.graph import DTYPE_BYTES, DType, Role

CONVERTERS: Mapping[str, Converter] = {
    **elementwise.CONVERTERS,
    **layers.CONVERTERS,
    **shape.CONVERTERS,
}
# names under which primitives hold the function that they call
_BODIES = ("jaxpr", "call_jaxpr", "fun_jaxpr")
_INLINED = frozenset({
    "jit", "pjit", "closed_call", "core_call", "remat", "remat2", "checkpoint", "custom_jvp_call",
    "custom_vjp_call", "custom_vjp_call_jaxpr", "custom_lin",
})  # fmt: skip
_COMMUNICATE = frozenset({
    "shard_map", "psum", "psum2", "psum_invariant", "pmax", "pmin", "ppermute", "all_gather",
    "all_gather_invariant", "all_to_all", "reduce_scatter", "pmap", "xla_pmap",
})  # fmt: skip
# functions of jax.nn that are one op here, by the file that defines them
_WHOLE = {"softmax": "softmax", "log_softmax": "log_softmax", "silu": "silu", "relu": "relu"}
_WHERE = "jax/_src/nn/functions.py"
_LONGEST = 1024  # chosen: twice the layers of the deepest models
_DTYPES = {"float8_e4m3fn": "float8_e4m3", "uint32": "int32", "uint16": "int16"}


class Reader:
    """Reads one function.

    annotated: values with the cuts that the program asks for. constants: arrays of the program's
    own, by the names that the graph has for them.
    """

    def __init__(self, witness: Witness) -> None:
        self.program = Program([], [], [], witness=witness)
        self.annotated: list[tuple[Value, str]] = []
        self.constants: dict[str, np.ndarray[Any, Any]] = {}
        self._numbers: dict[Value, np.ndarray[Any, Any]] = {}
        self._parts: dict[tuple[Value, int], Value] = {}

    def source(self, name: str, struct: Any, role: str) -> Value:
        """A tensor that is given; behind its annotation, where it has one."""
        value = self._new(struct, f"input {name!r}")
        value.name, value.role = name, cast(Role, role)
        self.program.sources.append(value)
        sharding = getattr(struct, "sharding", None)
        return value if sharding is None else self._annotated(value, sharding, name)

    def read(
        self, jaxpr: Any, consts: Sequence[Any], inputs: Sequence[Value], path: str
    ) -> list[Value]:
        """The results of a jaxpr for these inputs, its nodes added to the program."""
        known: dict[Any, Value] = dict(zip(jaxpr.invars, inputs, strict=True))
        known.update(
            (variable, self._constant(const, path))
            for variable, const in zip(jaxpr.constvars, consts, strict=True)
        )
        for equation in jaxpr.eqns:
            given = [self._value(own, known) for own in equation.invars]
            made = self._equation(equation, given, _joined(path, _scopes(equation)))
            known.update(zip(equation.outvars, made, strict=True))
        return [self._value(own, known) for own in jaxpr.outvars]

    def _value(self, variable: Any, known: Mapping[Any, Value]) -> Value:
        return self._constant(variable.val, "") if hasattr(variable, "val") else known[variable]

    def _constant(self, const: Any, path: str) -> Value:
        """A number that is known; a larger array is a constant of the graph, its values unread."""
        value = self._new(const, "a constant")
        if int(np.prod(np.shape(const))) == 1:
            self._numbers[value] = np.asarray(const)
            number = np.asarray(const).reshape(-1)[0].item()
            attrs = {"value": plain(number)}
            self.program.nodes.append(Node("full", [], [value], attrs, path))
            return value
        count = sum(own.role == "constant" for own in self.program.sources)
        value.name, value.role = f"constant_{count + 1}", "constant"
        self.constants[value.name] = np.asarray(const)
        self.program.sources.append(value)
        return value

    def _new(self, struct: Any, what: str) -> Value:
        name = str(np.result_type(struct) if np.isscalar(struct) else struct.dtype)
        name = _DTYPES.get(name, name)
        if name not in DTYPE_BYTES:
            raise GraphError(f"{what} is of the type {name}, which no graph has")
        return Value("", tuple(int(size) for size in np.shape(struct)), cast(DType, name))

    def _equation(self, equation: Any, inputs: list[Value], path: str) -> list[Value]:
        kind, params = equation.primitive.name, equation.params
        if kind in _COMMUNICATE:
            raise GraphError(
                f"{path or 'the function'} communicates between devices ({kind}); capture the "
                "function of one device, from which the planner makes the communication"
            )
        if kind == "sharding_constraint":
            return [self._annotated(inputs[0], params["sharding"], path)]
        body = next((params[own] for own in _BODIES if own in params), None)
        if kind == "scan":
            return self._scan(equation, inputs, path)
        whole = None if body is None else _whole(body)
        if body is not None and kind in _INLINED and whole is None:
            return self.read(
                getattr(body, "jaxpr", body), getattr(body, "consts", ()), inputs, path
            )
        results = [self._new(own.aval, f"{path} ({kind})") for own in equation.outvars]
        attrs = {key: own for key, own in params.items() if key not in _BODIES}
        numbers = {
            place: self._numbers[own] for place, own in enumerate(inputs) if own in self._numbers
        }
        call = NodeCall(kind, list(inputs), numbers, attrs, results, path, "jax")
        if whole is None:
            CONVERTERS.get(kind, NodeCall.unknown)(call)
        elif whole.endswith("softmax"):
            call.op(whole, [call.x], dim=call.x.rank - 1)
        else:
            call.op(whole, [call.x])
        self.program.nodes += call.nodes
        return call.values

    def _annotated(self, value: Value, sharding: Any, path: str) -> Value:
        """The value; one that is made, behind an op that no pass looks through.

        Cuts are numbers of parts.
        """
        spec, sizes = getattr(sharding, "spec", None), getattr(sharding, "mesh", None)
        if spec is None or sizes is None:
            raise GraphError(f"{path or 'the function'}: only a NamedSharding can become a pin")
        cuts = []
        for axes in [*spec, *[None] * (value.rank - len(spec))]:
            names = () if axes is None else axes if isinstance(axes, tuple) else (axes,)
            if not all(isinstance(own, str) for own in names):
                return value
            cuts.append(int(np.prod([sizes.shape[own] for own in names], dtype=np.int64)))
        if not cuts:
            return value
        if value in self.program.sources:
            self.annotated.append((value, f"({','.join(map(str, cuts))},)"))
            return value
        made = Value("", value.shape, value.dtype)
        self.program.nodes.append(Node("identity", [value], [made], {}, path))
        self.annotated.append((made, f"({','.join(map(str, cuts))},)"))
        return made

    def _scan(self, equation: Any, inputs: list[Value], path: str) -> list[Value]:
        """The body once for each step; a stacked parameter is a parameter for each step."""
        params, body = equation.params, equation.params["jaxpr"]
        length, fixed, carried = params["length"], params["num_consts"], params["num_carry"]
        sized = self.program.witness.size(length)
        if not isinstance(sized, int) or length > _LONGEST:
            raise GraphError(
                f"{path or 'the function'} has a scan of {sized} steps; one over a symbol, or of "
                f"more than {_LONGEST} steps, cannot be unrolled. Give the symbol a fixed size, or "
                "write the loop as operations on whole arrays"
            )
        consts, carry = inputs[:fixed], inputs[fixed : fixed + carried]
        stacks = inputs[fixed + carried :]
        steps: list[list[Value]] = [[] for _ in range(length)]
        order = range(length - 1, -1, -1) if params["reverse"] else range(length)
        name = _name(body) or "scan"
        for step in order:
            parts = [self._part(stack, step, path) for stack in stacks]
            inner = _joined(path, f"{name}.{step}")
            made = self.read(body.jaxpr, body.consts, [*consts, *carry, *parts], inner)
            carry, steps[step] = made[:carried], made[carried:]
        stacked = []
        for variable, column in zip(
            equation.outvars[carried:], zip(*steps, strict=True), strict=True
        ):
            value = self._new(variable.aval, path)
            self.program.nodes.append(Node("stack", list(column), [value], {"dim": 0}, path))
            stacked.append(value)
        return [*carry, *stacked]

    def _part(self, stack: Value, step: int, path: str) -> Value:
        if (stack, step) in self._parts:
            return self._parts[stack, step]
        made = Value("", stack.shape[1:], stack.dtype)
        if stack.role == "parameter":
            made.name, made.role = f"{stack.name}.{step}", "parameter"
            self.program.sources.append(made)
            if step == 0 or (stack, 0) not in self._parts:
                note = f"{stack.name} is one parameter for each step of the scan over it"
                self.program.notes += [note] if note not in self.program.notes else []
        else:
            row = Value("", (1, *stack.shape[1:]), stack.dtype)
            cut = {"dim": 0, "start": step, "end": step + 1, "step": 1}
            self.program.nodes += [
                Node("slice", [stack], [row], cut, path),
                Node("reshape", [row], [made], {}, path),
            ]
        self._parts[stack, step] = made
        return made


def _scopes(equation: Any) -> str:
    return str(equation.source_info.name_stack).replace("/", ".")


def _joined(outer: str, inner: str) -> str:
    return ".".join(part for part in (outer, inner) if part)


def _name(body: Any) -> str:
    info = getattr(body.jaxpr, "debug_info", None)
    name = "" if info is None else str(info.func_src_info).split(" ")[0]
    return name if name.isidentifier() else ""


def _whole(body: Any) -> str | None:
    """The kind of a function of jax.nn that is one op here."""
    jaxpr = getattr(body, "jaxpr", body)
    info = getattr(jaxpr, "debug_info", None)
    said = "" if info is None else str(info.func_src_info)
    kind = _WHOLE.get(said.split(" ")[0]) if _WHERE in said.replace("\\", "/") else None
    if kind is None or len(jaxpr.invars) != 1:
        return None
    reductions = [own for own in jaxpr.eqns if own.primitive.name.startswith("reduce_")]
    last = len(jaxpr.invars[0].aval.shape) - 1
    along_last = all(tuple(own.params["axes"]) == (last,) for own in reductions)
    return kind if along_last else None
