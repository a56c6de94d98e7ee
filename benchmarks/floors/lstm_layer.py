from lstm import build  # the same step
