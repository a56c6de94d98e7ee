"""`fluid.contrib.slim`: smaller models: quantised, pruned, taught by larger ones, or searched for."""
