"""Conversion of a jaxpr to a Program, with inlined calls, unrolled scans and annotations."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

import jax
import numpy as np

from meshwright.capture.jax import elementwise, layers, shape
from meshwright.capture.jax.shard_maps import whole_function
from meshwright.capture.node_arithmetic import plain
from meshwright.capture.node_call import Converter, NodeCall
from meshwright.capture.program import Node, Program, Value
from meshwright.capture.symbolic_sizes import Witness
from meshwright.schema.errors import GraphError
from meshwright.schema.graph import DTYPE_BYTES, DType, Role

CONVERTERS: Mapping[str, Converter] = {
    **elementwise.CONVERTERS,
    **layers.CONVERTERS,
    **shape.CONVERTERS,
}
# params of primitives that hold the called function
_BODIES = ("jaxpr", "call_jaxpr", "fun_jaxpr")
_CALLS = frozenset({
    "jit", "pjit", "closed_call", "core_call", "remat", "remat2", "checkpoint", "custom_jvp_call",
    "custom_vjp_call", "custom_vjp_call_jaxpr", "custom_lin",
})  # fmt: skip
_COLLECTIVES = frozenset({
    "psum", "psum2", "psum_invariant", "pmax", "pmin", "ppermute", "all_gather",
    "all_gather_invariant", "all_to_all", "reduce_scatter", "pmap", "xla_pmap",
})  # fmt: skip
# functions of jax.nn with a canonical kind, and their source file
_CANONICAL = {"softmax": "softmax", "log_softmax": "log_softmax", "silu": "silu", "relu": "relu"}
_NN_FILE = "jax/_src/nn/functions.py"
_LONGEST = 1024  # chosen: twice the layers of the deepest models
_DTYPES = {"float8_e4m3fn": "float8_e4m3", "uint32": "int32", "uint16": "int16"}


class JaxprReader:
    """Reader of one function.

    annotated: values with the cuts of their annotations. constants: arrays in the program, by their
    names in the graph.
    """

    def __init__(self, witness: Witness) -> None:
        self.program = Program([], [], [], witness=witness)
        self.annotated: list[tuple[Value, str]] = []
        self.constants: dict[str, np.ndarray[Any, Any]] = {}
        self._numbers: dict[Value, np.ndarray[Any, Any]] = {}
        self._parts: dict[tuple[Value, int], Value] = {}

    def source(self, name: str, struct: Any, role: str) -> Value:
        """An input tensor, with its annotation recorded."""
        value = self._new_value(struct, f"input {name!r}")
        value.name, value.role = name, cast(Role, role)
        self.program.sources.append(value)
        sharding = getattr(struct, "sharding", None)
        return value if sharding is None else self._annotate(value, sharding, name)

    def read(
        self, jaxpr: Any, consts: Sequence[Any], inputs: Sequence[Value], path: str
    ) -> list[Value]:
        """Append the nodes of a jaxpr to the program; returns its results for these inputs."""
        known: dict[Any, Value] = dict(zip(jaxpr.invars, inputs, strict=True))
        known.update(
            (variable, self._constant(const, path))
            for variable, const in zip(jaxpr.constvars, consts, strict=True)
        )
        for equation in jaxpr.eqns:
            arguments = [self._value(variable, known) for variable in equation.invars]
            results = self._equation(equation, arguments, _join_path(path, _scopes(equation)))
            known.update(zip(equation.outvars, results, strict=True))
        return [self._value(variable, known) for variable in jaxpr.outvars]

    def _value(self, variable: Any, known: Mapping[Any, Value]) -> Value:
        return self._constant(variable.val, "") if hasattr(variable, "val") else known[variable]

    def _constant(self, const: Any, path: str) -> Value:
        """A constant: one number becomes `full`, a larger array a constant tensor of the graph."""
        value = self._new_value(const, "a constant")
        if int(np.prod(np.shape(const))) == 1:
            self._numbers[value] = np.asarray(const)
            number = np.asarray(const).reshape(-1)[0].item()
            attrs = {"value": plain(number)}
            self.program.nodes.append(Node("full", [], [value], attrs, path))
            return value
        count = sum(source.role == "constant" for source in self.program.sources)
        value.name, value.role = f"constant_{count + 1}", "constant"
        self.constants[value.name] = np.asarray(const)
        self.program.sources.append(value)
        return value

    def _new_value(self, struct: Any, what: str) -> Value:
        name = str(np.result_type(struct) if np.isscalar(struct) else struct.dtype)
        name = _DTYPES.get(name, name)
        if name not in DTYPE_BYTES:
            raise GraphError(f"{what} is of the type {name}, which graphs do not support")
        return Value("", tuple(int(size) for size in np.shape(struct)), cast(DType, name))

    def _equation(self, equation: Any, inputs: list[Value], path: str) -> list[Value]:
        kind, params = equation.primitive.name, equation.params
        if kind == "shard_map":
            return self._region(equation, inputs, path)
        if kind in _COLLECTIVES:
            raise GraphError(
                f"{path or 'the function'} communicates between devices ({kind}). Capture the "
                "function of one device; the planner adds the communication"
            )
        if kind == "sharding_constraint":
            return [self._annotate(inputs[0], params["sharding"], path)]
        body = next((params[name] for name in _BODIES if name in params), None)
        if kind == "scan":
            return self._scan(equation, inputs, path)
        canonical = None if body is None else _canonical_kind(body)
        if body is not None and kind in _CALLS and canonical is None:
            return self.read(
                getattr(body, "jaxpr", body), getattr(body, "consts", ()), inputs, path
            )
        results = [
            self._new_value(variable.aval, f"{path} ({kind})") for variable in equation.outvars
        ]
        attrs = {key: param for key, param in params.items() if key not in _BODIES}
        numbers = {
            place: self._numbers[value]
            for place, value in enumerate(inputs)
            if value in self._numbers
        }
        call = NodeCall(kind, list(inputs), numbers, attrs, results, path, "jax")
        if canonical is None:
            CONVERTERS.get(kind, NodeCall.unknown)(call)
        elif canonical.endswith("softmax"):
            call.op(canonical, [call.x], dim=call.x.rank - 1)
        else:
            call.op(canonical, [call.x])
        self.program.nodes += call.nodes
        return call.values

    def _region(self, equation: Any, inputs: list[Value], path: str) -> list[Value]:
        """A region with its own collectives, read as a function of whole arrays."""
        structs = [
            jax.ShapeDtypeStruct(variable.aval.shape, variable.aval.dtype)  # type: ignore[no-untyped-call]  # jax has no types there
            for variable in equation.invars
        ]
        closed = jax.make_jaxpr(whole_function(equation))(*structs)
        return self.read(closed.jaxpr, closed.consts, inputs, path)

    def _annotate(self, value: Value, sharding: Any, path: str) -> Value:
        """Record the annotation of a value; a computed value gets an identity op.

        Cuts are numbers of parts per dim. Passes do not look through the identity op.
        """
        spec, sizes = getattr(sharding, "spec", None), getattr(sharding, "mesh", None)
        if spec is None or sizes is None:
            raise GraphError(f"{path or 'the function'}: only a NamedSharding can become a pin")
        cuts = []
        for axes in [*spec, *[None] * (value.rank - len(spec))]:
            names = () if axes is None else axes if isinstance(axes, tuple) else (axes,)
            if not all(isinstance(name, str) for name in names):
                return value
            cuts.append(int(np.prod([sizes.shape[name] for name in names], dtype=np.int64)))
        if not cuts:
            return value
        if value in self.program.sources:
            self.annotated.append((value, f"({','.join(map(str, cuts))},)"))
            return value
        marked = Value("", value.shape, value.dtype)
        self.program.nodes.append(Node("identity", [value], [marked], {}, path))
        self.annotated.append((marked, f"({','.join(map(str, cuts))},)"))
        return marked

    def _scan(self, equation: Any, inputs: list[Value], path: str) -> list[Value]:
        """Unroll a scan; a stacked parameter becomes one parameter per step."""
        params, body = equation.params, equation.params["jaxpr"]
        length, const_count, carry_count = (
            params["length"],
            params["num_consts"],
            params["num_carry"],
        )
        length_size = self.program.witness.size(length)
        if not isinstance(length_size, int) or length > _LONGEST:
            raise GraphError(
                f"{path or 'the function'} has a scan of {length_size} steps; one over a symbol, "
                f"or of more than {_LONGEST} steps, cannot be unrolled. Give the symbol a fixed "
                "size, or write the loop as operations on whole arrays"
            )
        consts, carry = inputs[:const_count], inputs[const_count : const_count + carry_count]
        stacks = inputs[const_count + carry_count :]
        steps: list[list[Value]] = [[] for _ in range(length)]
        order = range(length - 1, -1, -1) if params["reverse"] else range(length)
        name = _name(body) or "scan"
        for step in order:
            parts = [self._part(stack, step, path) for stack in stacks]
            inner = _join_path(path, f"{name}.{step}")
            results = self.read(body.jaxpr, body.consts, [*consts, *carry, *parts], inner)
            carry, steps[step] = results[:carry_count], results[carry_count:]
        stacked = []
        for variable, column in zip(
            equation.outvars[carry_count:], zip(*steps, strict=True), strict=True
        ):
            value = self._new_value(variable.aval, path)
            self.program.nodes.append(Node("stack", list(column), [value], {"dim": 0}, path))
            stacked.append(value)
        return [*carry, *stacked]

    def _part(self, stack: Value, step: int, path: str) -> Value:
        if (stack, step) in self._parts:
            return self._parts[stack, step]
        part = Value("", stack.shape[1:], stack.dtype)
        if stack.role == "parameter":
            part.name, part.role = f"{stack.name}.{step}", "parameter"
            self.program.sources.append(part)
            if step == 0 or (stack, 0) not in self._parts:
                note = f"{stack.name} is one parameter for each step of the scan over it"
                self.program.notes += [note] if note not in self.program.notes else []
        else:
            row = Value("", (1, *stack.shape[1:]), stack.dtype)
            attrs = {"dim": 0, "start": step, "end": step + 1, "step": 1}
            self.program.nodes += [
                Node("slice", [stack], [row], attrs, path),
                Node("reshape", [row], [part], {}, path),
            ]
        self._parts[stack, step] = part
        return part


def _scopes(equation: Any) -> str:
    scopes = re.sub(r"vmap\(([^()]*)\)", r"\1", str(equation.source_info.name_stack))
    return ".".join(scope for scope in scopes.split("/") if scope)


def _join_path(outer: str, inner: str) -> str:
    return ".".join(part for part in (outer, inner) if part)


def _name(body: Any) -> str:
    info = getattr(body.jaxpr, "debug_info", None)
    name = "" if info is None else str(info.func_src_info).split(" ")[0]
    return name if name.isidentifier() else ""


def _canonical_kind(body: Any) -> str | None:
    """The canonical kind of a function of jax.nn, or None."""
    jaxpr = getattr(body, "jaxpr", body)
    info = getattr(jaxpr, "debug_info", None)
    source = "" if info is None else str(info.func_src_info)
    kind = _CANONICAL.get(source.split(" ")[0]) if _NN_FILE in source.replace("\\", "/") else None
    if kind is None or len(jaxpr.invars) != 1:
        return None
    reductions = [
        equation for equation in jaxpr.eqns if equation.primitive.name.startswith("reduce_")
    ]
    last = len(jaxpr.invars[0].aval.shape) - 1
    is_along_last = all(tuple(equation.params["axes"]) == (last,) for equation in reductions)
    return kind if is_along_last else None
