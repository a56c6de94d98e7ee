"""Random arguments of functions, a file for each family of ops: `beside.draw` says how a generator is
written.
"""
