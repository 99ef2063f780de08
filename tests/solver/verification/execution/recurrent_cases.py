"""Calls of recurrent kinds; the interpreter of captured graphs has their meaning in torch."""

from __future__ import annotations

from tests.solver.verification.execution.kernel_cases import Case, case, positive, real

PLAIN = {"bias": False, "state": False, "projection": False, "reverse": False}
BIAS, STATE = {"bias": True}, {"state": True}

LSTM = (real(2, 4, 3), real(12, 3), real(12, 3))
GRU = (real(2, 4, 3), real(9, 3), real(9, 3))
RNN = (real(2, 4, 3), real(3, 3), real(3, 3))

CASES: list[Case] = [
    case("lstm", *LSTM, **PLAIN),
    case("lstm", *LSTM, real(12), real(12), real(2, 3), real(2, 3),
         **{**PLAIN, **BIAS, **STATE, "reverse": True}),
    case("lstm", LSTM[0], LSTM[1], real(12, 2), real(2, 3), real(2, 2), real(2, 3),
         **{**PLAIN, **STATE, "projection": True}),
    case("gru", *GRU, **PLAIN),
    case("gru", *GRU, real(9), real(9), real(2, 3),
         **{**PLAIN, **BIAS, **STATE, "reverse": True}),
    case("rnn", *RNN, real(3), real(3), nonlinearity="tanh", **{**PLAIN, **BIAS}),
    case("rnn", *RNN, real(2, 3), nonlinearity="relu", **{**PLAIN, **STATE, "reverse": True}),
    case("gated_delta_rule", real(2, 5, 2, 3), real(2, 5, 2, 3), real(2, 5, 4, 2),
         -positive(2, 5, 4), real(2, 5, 4)),
    case("gated_delta_rule", real(2, 5, 3, 4), real(2, 5, 3, 4), real(2, 5, 3, 2),
         -positive(2, 5, 3, 4), real(2, 5, 3)),
    case("gated_delta_rule", real(2, 5, 1, 4), real(2, 5, 1, 4), real(2, 5, 3, 2),
         -positive(2, 5, 3), real(2, 5, 3)),
    case("linear_recurrence", real(2, 5, 3), real(2, 5, 3)),
]  # fmt: skip
