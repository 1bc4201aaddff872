"""CuTe DSL's kernels: counted, and compiled for a GPU that is not here."""
