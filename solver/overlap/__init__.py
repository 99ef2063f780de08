"""What a step takes with what overlaps, in closed form."""
