"""Models of the families that Meshwright plans for, and their captured graphs."""
