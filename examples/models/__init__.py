"""Models in plain PyTorch; every module's factory returns a Recipe."""
