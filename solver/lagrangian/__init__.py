"""Lagrange multipliers, message passing and block moves over flat cost graphs."""
