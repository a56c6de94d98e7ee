"""What a loop computes is what the chain computes; NumPy by hand has no loop op to pay for."""
from chain import build

__all__ = ["build"]
