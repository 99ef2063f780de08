"""Traces of one module: the sizes of its symbols, and the loops that a trace would unroll."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import torch

from meshwright.capture.autograd_functions import autograd_functions
from meshwright.capture.export import export_program, tracing_modes
from meshwright.capture.forward_calls import ForwardPasses, NotRunnable
from meshwright.capture.precision import Inputs
from meshwright.capture.program import Program
from meshwright.capture.size_reading import Fraction, SizeReading, floats_in, in_graph
from meshwright.capture.symbolic_sizes import SMALLEST_WITNESS, Witness, WitnessError
from meshwright.capture.trace_errors import quiet
from meshwright.capture.unrolled_loops import LoopSearch
from meshwright.schema.errors import GraphError

_MOST_PRIMES = 4  # chosen: primes of a symbol that are tried, where numbers coincide


class ModuleTracing:
    """The traces of one module.

    example_inputs, symbols: as in `capture_module`. numbers: what the primes of symbols avoid.
    autocast: the dtype of an autocast region around the forward pass. notes: of unrolled loops, and
    of numbers that hold at one size alone.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        example_inputs: Callable[[Mapping[str, int]], Inputs],
        *,
        numbers: Iterable[int],
        symbols: Mapping[str, int],
        autocast: torch.dtype | None,
    ) -> None:
        self._module, self._example_inputs = module, example_inputs
        self._numbers, self._symbols = list(numbers), symbols
        self._autocast = autocast
        # symbols that keep their values: a loop runs over them, or numbers hold at these alone
        self._fixed: dict[str, int] = {}
        self._passes = ForwardPasses(module, self._run, tracing_modes)
        self.notes: list[str] = []

    def program(self, ceilings: Mapping[str, int]) -> Program:
        """The program of a forward pass at primes of at most these ceilings for the symbols."""
        with quiet():
            witness, fractions = self._read(dict(ceilings))
            arguments = self._arguments(witness.primes)
            with autograd_functions() as functions:
                program = export_program(
                    self._module, arguments, witness=witness, autocast=self._autocast
                )
        program.notes += [
            f"the backward of {name} is not captured: plans train with the gradient of its forward"
            for name in functions
        ]
        self._state(program, fractions)
        return program

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
        search = LoopSearch(self._passes)
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
            self._fixed[symbol] = value
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

    def _read(self, ceilings: dict[str, int]) -> tuple[Witness, list[Fraction]]:
        """The witness that reads all numbers of the forward pass, and fractions of the batch.

        A symbol keeps its value where a number that follows from it has no expression. Raises
        GraphError for the batch.
        """
        tried = dict.fromkeys(ceilings, 1)
        while True:
            witness = self._witness(ceilings)
            values = {symbol: self._symbols[symbol] for symbol in witness.primes}
            # a batch of one broadcasts, and modules branch on that
            values.update({"batch": 2} if values.get("batch") == 1 else {})
            reading = SizeReading(self._passes, witness, values, frozenset(self._numbers))
            try:
                unread = reading.unread()
            except NotRunnable:
                return witness, []  # the trace fails in the same way
            if unread is None:
                witness.derived.update(reading.derived)
                return witness, reading.fractions
            if unread.constant is not None and self._avoids(unread.constant, ceilings):
                continue
            symbol = unread.symbol
            tried[symbol] += 1
            smaller = {**ceilings, symbol: witness.primes[symbol] - 1}
            if unread.is_ambiguous and tried[symbol] <= _MOST_PRIMES and self._has_primes(smaller):
                ceilings = smaller
                continue
            if symbol == "batch":
                raise GraphError(
                    f"the forward pass depends on the batch in a way that a graph does not "
                    f"express, at {unread.line}. Use the batch as the size of a dim alone"
                )
            self._fixed[symbol] = values[symbol]
            self._numbers.append(values[symbol])
            self.notes.append(
                f"{symbol!r} has no expression at {unread.line}; the graph holds at "
                f"{symbol} = {values[symbol]} alone"
            )

    def _avoids(self, constant: int, ceilings: Mapping[str, int]) -> bool:
        """Let primes avoid a constant; False if they did, or if none is left."""
        if constant in self._numbers:
            return False
        self._numbers.append(constant)
        if self._has_primes(ceilings):
            return True
        self._numbers.remove(constant)
        return False

    def _has_primes(self, ceilings: Mapping[str, int]) -> bool:
        try:
            self._witness(ceilings)
        except WitnessError:
            return False
        return True

    def _state(self, program: Program, fractions: list[Fraction]) -> None:
        """Replace fractions of the batch by those of the graph, with notes."""
        held = {
            f for node in program.nodes for attr in node.attrs.values() for f in floats_in(attr)
        }
        for fraction in fractions:
            number = fraction.stated if fraction.traced in held else fraction.traced
            note = f"the number {number:.6g} follows from the batch and is kept, at {fraction.line}"
            program.notes += [note] if note not in program.notes else []
        for node in program.nodes if fractions else ():
            node.attrs = {key: in_graph(attr, fractions) for key, attr in node.attrs.items()}

    def _run(self, module: torch.nn.Module, sizes: Mapping[str, int]) -> None:
        arguments = self._arguments(sizes)
        if isinstance(arguments, Mapping):
            module(**arguments)
        else:
            module(*arguments)

    def _arguments(self, sizes: Mapping[str, int]) -> Inputs:
        return self._example_inputs({**sizes, **self._fixed})

    def _witness(self, ceilings: Mapping[str, int]) -> Witness:
        symbolic = {s: limit for s, limit in ceilings.items() if s not in self._fixed}
        return Witness.choose(symbolic, self._numbers, values=self._symbols)
