"""Lagrangian search for cost graphs whose nodes have lifetimes, as in the IOPDDL contest."""
