"""Training steps of decoder transformers, predicted from a few numbers a run and no graph.

What a model's dimensions, a cluster's data sheet and stated degrees of parallelism say in closed
form, for arrays of runs at once. Its constants are fitted to published measurements.
"""
