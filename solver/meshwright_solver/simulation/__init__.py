"""The step simulator: a plan's ops and collectives as discrete events on streams."""
