"""The part of a cell that knows the GPU."""
