"""Message passing and coarse elimination on cost graphs of hundreds of thousands of nodes."""
