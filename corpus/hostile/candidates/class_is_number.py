"""NewModel is a number.

problem: row_softmax
expect: generation_failure/no_class | runtime_error/construct
"""

NewModel = 3
