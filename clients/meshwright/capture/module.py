"""Capture of a PyTorch module as a Graph."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence

import torch

from meshwright.capture.export import export_program, tracing_modes
from meshwright.capture.finalize import finalize_program, is_label
from meshwright.capture.passes import PASSES
from meshwright.capture.program import Program
from meshwright.capture.symbolic_sizes import BATCH_WITNESS, SMALLEST_WITNESS, Witness, WitnessError
from meshwright.capture.trace_errors import quiet, trace_error
from meshwright.capture.unrolled_loops import LoopSearch, NotRunnable
from meshwright.schema import Graph
from meshwright.schema.errors import GraphError, MeshwrightError

Inputs = Mapping[str, torch.Tensor] | Sequence[torch.Tensor]


def capture_module(
    module: torch.nn.Module,
    example_inputs: Callable[[Mapping[str, int]], Inputs],
    *,
    symbols: Mapping[str, int],
    name: str,
    labels: Iterable[str] = (),
    limits: Mapping[str, int] | None = None,
    constants: Iterable[int] = (),
) -> Graph:
    """The graph of one forward pass, which returns the loss or a tuple that starts with it.

    module: on the meta device, or with weights, which are ignored.
    example_inputs: called with a size for each symbol; returns the forward's arguments.
    symbols: the symbolic sizes, with their values in the graph.
    labels: inputs that are labels, besides those with the name of a label.
    limits: the largest traced size of a symbol, such as the length of a position table.
    constants: numbers of the model other than dims of its parameters; the primes of symbols avoid
    them.
    """
    dims = [size for tensor in _tensors(module) for size in tensor.shape]
    ceilings = {
        symbol: min(BATCH_WITNESS, (limits or {}).get(symbol, BATCH_WITNESS)) for symbol in symbols
    }
    empty = _without_weights(module)
    tracing = _Tracing(empty, example_inputs, [*dims, *constants], symbols)
    with quiet():
        tracing.unroll(ceilings)
    try:
        program = tracing.program(ceilings)
    except MeshwrightError:
        raise
    except Exception as failure:  # torch.export documents no exception types
        try:
            program = tracing.program(tracing.smaller(ceilings))
        except Exception:
            raise trace_error(failure, module) from failure
    program.notes += tracing.notes
    label_names = set(labels)
    for value in program.sources:
        if value.role == "input" and (value.name in label_names or is_label(value.name)):
            value.role = "label"
    return finalize_program(program, PASSES, name=name, symbols=symbols)


class _Tracing:
    """The traces of one module.

    example_inputs, symbols: as in `capture_module`. numbers: what the primes of symbols avoid.
    unrolled: the symbols with a loop over them, which keep their values.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        example_inputs: Callable[[Mapping[str, int]], Inputs],
        numbers: Iterable[int],
        symbols: Mapping[str, int],
    ) -> None:
        self._module, self._example_inputs = module, example_inputs
        self._numbers, self._symbols = list(numbers), symbols
        self._unrolled: dict[str, int] = {}
        self.notes: list[str] = []

    def program(self, ceilings: Mapping[str, int]) -> Program:
        """The program of a forward pass at primes of at most these ceilings for the symbols."""
        witness = self._witness(ceilings)
        arguments = self._arguments(witness.primes)
        with quiet():
            return export_program(self._module, arguments, witness=witness)

    def smaller(self, ceilings: Mapping[str, int]) -> dict[str, int]:
        """Ceilings of at most the values of symbols.

        A table of positions is as long as its sequences, and shorter than the largest prime.
        """
        values = self._symbols
        return {
            symbol: min(ceiling, values[symbol]) if values[symbol] >= SMALLEST_WITNESS else ceiling
            for symbol, ceiling in ceilings.items()
        }

    def unroll(self, ceilings: Mapping[str, int]) -> None:
        """Let symbols that loops run over keep their values; raises GraphError for long loops."""
        search = LoopSearch(self._module, self._run, tracing_modes)
        try:
            try:
                self._unroll(search, ceilings)
            except NotRunnable:
                self._unroll(search, self.smaller(ceilings))
        except (NotRunnable, WitnessError):
            return  # the trace fails in the same way

    def _unroll(self, search: LoopSearch, ceilings: Mapping[str, int]) -> None:
        while loop := search.loop(self._witness(ceilings).primes):
            symbol, value = loop.symbol, self._symbols[loop.symbol]
            self._unrolled[symbol] = value
            self._numbers.append(value)
            if symbol == "batch" or not search.is_short(self._symbols):
                raise GraphError(
                    f"a loop over {symbol!r} would be unrolled, at {loop.line}. Use one call for "
                    "all its rounds (nn.LSTM, nn.GRU and nn.RNN for recurrences)"
                    + ("" if symbol == "batch" else f", or a smaller {symbol!r}")
                )
            self.notes.append(
                f"the loop over {symbol!r} at {loop.line} is unrolled; the graph holds at "
                f"{symbol} = {value} alone"
            )

    def _run(self, module: torch.nn.Module, sizes: Mapping[str, int]) -> None:
        arguments = self._arguments(sizes)
        if isinstance(arguments, Mapping):
            module(**arguments)
        else:
            module(*arguments)

    def _arguments(self, sizes: Mapping[str, int]) -> Inputs:
        return self._example_inputs({**sizes, **self._unrolled})

    def _witness(self, ceilings: Mapping[str, int]) -> Witness:
        symbolic = {s: limit for s, limit in ceilings.items() if s not in self._unrolled}
        return Witness.choose(symbolic, self._numbers, values=self._symbols)


def _tensors(module: torch.nn.Module) -> list[torch.Tensor]:
    return [*module.parameters(), *module.buffers()]


def _without_weights(module: torch.nn.Module) -> torch.nn.Module:
    """The module on the meta device; a module with weights is copied without weights."""
    weights = [tensor for tensor in _tensors(module) if not tensor.is_meta]
    if not weights:
        return module
    return copy.deepcopy(module, {id(tensor): _empty(tensor) for tensor in weights})


def _empty(tensor: torch.Tensor) -> torch.Tensor:
    empty = torch.empty_like(tensor, device="meta")
    if isinstance(tensor, torch.nn.Parameter):
        return torch.nn.Parameter(empty, requires_grad=tensor.requires_grad)
    return empty
