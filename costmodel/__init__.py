"""What a choice costs: hardware, collectives, operator time, memory."""
