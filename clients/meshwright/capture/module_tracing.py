"""Traces of one module: the sizes of its symbols, and the loops that a trace would unroll."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import torch

from meshwright.capture.export import export_program, tracing_modes
from meshwright.capture.precision import Inputs
from meshwright.capture.program import Program
from meshwright.capture.symbolic_sizes import SMALLEST_WITNESS, Witness, WitnessError
from meshwright.capture.trace_errors import quiet
from meshwright.capture.unrolled_loops import LoopSearch, NotRunnable
from meshwright.schema.errors import GraphError


class ModuleTracing:
    """The traces of one module.

    example_inputs, symbols: as in `capture_module`. numbers: what the primes of symbols avoid.
    autocast: the dtype of an autocast region around the forward pass. notes: of unrolled loops.
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
        # symbols with a loop over them, which keep their values
        self._unrolled: dict[str, int] = {}
        self.notes: list[str] = []

    def program(self, ceilings: Mapping[str, int]) -> Program:
        """The program of a forward pass at primes of at most these ceilings for the symbols."""
        witness = self._witness(ceilings)
        arguments = self._arguments(witness.primes)
        with quiet():
            return export_program(self._module, arguments, witness=witness, autocast=self._autocast)

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
