"""Transfer routes: the parts of a tensor on devices, and the sends between them."""
