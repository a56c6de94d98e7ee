"""The 200 element-wise ops of the chain, as 40 steps of a loop."""
from chain_spec import make

__all__ = ["make"]
