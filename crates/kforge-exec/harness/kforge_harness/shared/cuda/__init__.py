"""NVIDIA's driver, for whichever side has a GPU."""
