class WeightDecayRegularizer: pass
