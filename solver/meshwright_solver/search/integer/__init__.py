"""Exact search by integer programming: reductions, dual bounds, the encoding for CP-SAT."""
