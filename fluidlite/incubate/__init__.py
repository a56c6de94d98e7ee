"""`fluid.incubate`: Fleet, and the data generators of its jobs."""
