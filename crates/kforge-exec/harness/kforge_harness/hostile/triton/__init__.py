"""Triton's kernels where there is no GPU: interpreted, and compiled for one."""
