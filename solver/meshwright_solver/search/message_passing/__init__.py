"""Message passing (TRW-S) on cost graphs of hundreds of thousands of nodes."""
