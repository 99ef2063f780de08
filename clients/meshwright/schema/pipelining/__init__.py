"""In which order the stages of a pipeline make their passes."""
