"""FluidLite's commands."""
