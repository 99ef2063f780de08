"""Parts of `solver.transfer`: what devices hold, who sends what to whom, what links carry."""
