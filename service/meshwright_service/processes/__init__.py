"""Child processes: the forkserver, the pool, and executors of other machines."""
