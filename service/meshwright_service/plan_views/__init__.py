"""Views of a plan that pages show, computed once and cached."""
