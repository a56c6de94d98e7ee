"""Random programs held against PaddlePaddle itself, against central differences, and against our own engines.

`make fuzz` runs them; `make oracles` makes the environments of PaddlePaddle 1.8.5 and 2.6.2 that it asks.

A case is plain data by its seed alone (`language`): feeds, calls, outputs. Generators of single functions
stand beside the rows of their ops (`tests/ops/draws`), those of networks and jobs here. A worker for each
back end (`worker`) builds and runs the case and tells what it saw (`observe`); `compare` lists what
differs, `rows` knows what is to stay different (remarks in docs), `shrink` makes a difference small,
`report` sorts the rest by cause. Cases that ever differed are kept with the right values (`kept`), and CI
runs them without any oracle.

`language`, `observe` and `worker` also run under the Python 3.7 of PaddlePaddle 1.8.5.
"""
