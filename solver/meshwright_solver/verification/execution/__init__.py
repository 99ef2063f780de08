"""Plans executed in numpy, device by device, with their collectives, against the unsharded run."""
