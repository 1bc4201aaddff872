"""Knows the problem and judges outputs; never loads a candidate, and runs in no sandbox."""
