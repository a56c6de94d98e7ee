"""Networks in the manner of published ones, each written once: `definitions` builds them from functions that
`in_fluid`, `in_torch` and `in_jax` give, so that all peers have the same parameters.
"""
