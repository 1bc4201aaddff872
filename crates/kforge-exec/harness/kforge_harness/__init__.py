"""The Python side of kforge: referee (trusted), sandboxes and cells (hostile), and the zygote that forks them.

kforge writes this package to its cache folder and starts `zygote.py` with it. Reading order: zygote, sandbox,
supervisor, cell for the hostile side; referee, problem, draw, truth, compare, intake for the trusted side.
"""
