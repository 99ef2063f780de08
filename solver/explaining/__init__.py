"""Why ops of a plan have the strategies that they have: every other one, searched again."""
