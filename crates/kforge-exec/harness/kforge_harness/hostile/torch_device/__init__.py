"""A cell on any device that torch knows: inputs and results are copied through the host."""
