"""Peak memory of a stage over the events of one microbatch."""
