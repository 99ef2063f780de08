"""The evaluator: cost, peak memory, step time and document of an assignment."""
