"""Old scripts as they are: Paddle's names for FluidLite's modules, and scripts as `__main__`."""
