"""A cell on this machine's processors."""
