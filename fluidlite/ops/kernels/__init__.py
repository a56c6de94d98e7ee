"""How some ops are computed: plans and scratch buffers that several ops share, apart from what the ops
mean.
"""
