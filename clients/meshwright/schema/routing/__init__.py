"""Routes of a transfer: what devices hold of a tensor, and who sends which part of it to whom."""
