"""Memory over time: what is alive at every moment of a microbatch, and when most of it is."""
