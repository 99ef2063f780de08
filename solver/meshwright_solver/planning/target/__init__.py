"""Plans of a target: the search among the strategies that the options of a framework state."""
