"""Step time of a stage with overlapped communication, in closed form."""
