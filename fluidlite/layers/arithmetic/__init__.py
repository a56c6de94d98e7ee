"""Layers of arithmetic: element-wise functions, products, comparisons, reductions."""
