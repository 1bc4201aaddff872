"""The Python side of kforge, in packages that show its trust boundary.

`trusted` knows the problem: inputs, truths, comparison. `hostile` runs in a sandbox: its walls, what loads candidates
and baselines, what looks at them; nothing that is said there is believed. `shared` is what both need. Neither side
imports the other, and `shared` imports neither: tests/test_boundary.py holds that. What knows one kind of device, or one
language of kernels, is a package of its own inside of its side.

kforge writes all of this to its cache folder and starts `zygote.py`, which forks both sides. Reading order: zygote; then
sandbox, supervisor, cell of the hostile side; referee, problem, draw, truth, compare, intake of the trusted side.
"""
