"""Element-wise chains as compiled loops: text for LLVM, made from the scalar expressions of NumPy's calls.

`vectors` writes arithmetic on vectors, `functions` has exp, log, tanh and erf in it, `arithmetic` knows the
functions of scalar expressions, `nest` writes a loop, `compiler` makes machine code of it behind the running
program and keeps that on disk, `compiled` is what a plan calls. `routine` writes nested loops, `panels`
products of few rows; the steps of recurrences are made of both (`steps`, `gates`, `lstm`, `gru`), and
`recurrences` is what kernels ask for them.
"""
