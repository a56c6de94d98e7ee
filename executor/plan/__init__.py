"""A plan as data: values with a storage, typed steps that act on them, and the checks that a plan must
pass.
"""
