"""Cost graphs of files: as a CostGraph, solved by an engine, scored by a judge of their own."""
