"""The search for one pipeline stage: meshes, microbatches, recompute policies, engines."""
