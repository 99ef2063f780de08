"""Cost model: hardware, collectives, operator time and memory."""
