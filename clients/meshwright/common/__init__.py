"""Files, processes, units and names: tools of the client that are independent of plans."""
