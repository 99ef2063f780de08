"""Cost graphs as integer programs: reductions, dual bounds, fixed point and the encoding."""
