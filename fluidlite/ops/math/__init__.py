"""Ops of arithmetic: functions of elements, products, reductions, comparisons."""
