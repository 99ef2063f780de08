"""The planner: searches over sharding strategies and pipelines, and the evaluator of every plan."""
