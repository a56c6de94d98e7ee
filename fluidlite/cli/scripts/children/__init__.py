"""A folder for `PYTHONPATH`: processes that a script starts find FluidLite as `paddle` in it."""
