"""Views of a plan for the dashboard, computed once and cached."""
