"""Reports on plans: by op, as a graph, as an overview, and compared with another plan."""
