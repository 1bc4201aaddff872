"""A docstring and nothing else.

problem: row_softmax
expect: generation_failure/empty | generation_failure/no_class
"""
