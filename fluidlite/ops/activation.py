"""Activations and other functions of one element."""
from __future__ import annotations

from fluidlite.ops.scalar import unary

unary("sigmoid", "sigmoid(x)", grad="dout * out * (1 - out)")
unary("logsigmoid", "-(maximum(-x, 0) + log1p(exp(-abs(x))))", grad="dout * (1 - sigmoid(x))")
unary("tanh", "tanh(x)", grad="dout * (1 - out * out)")
unary("relu", "maximum(x, 0)", grad="dout * (out > 0)")
unary("exp", "exp(x)", grad="dout * out")
unary("sqrt", "sqrt(x)", grad="dout * 0.5 / out")
unary("rsqrt", "1 / sqrt(x)", grad="dout * -0.5 * out * out * out")
unary("abs", "abs(x)", grad="dout * sign(x)")
unary("ceil", "ceil(x)", grad="dout * 0.0")
unary("floor", "floor(x)", grad="dout * 0.0")
unary("round", "where(x < 0, ceil(x - 0.5), floor(x + 0.5))", grad="dout * 0.0")
unary("cos", "cos(x)", grad="-dout * sin(x)")
unary("sin", "sin(x)", grad="dout * cos(x)")
unary("tan", "tan(x)", grad="dout / (cos(x) * cos(x))")
unary("acos", "acos(x)", grad="-dout / sqrt(1 - x * x)")
unary("asin", "asin(x)", grad="dout / sqrt(1 - x * x)")
unary("atan", "atan(x)", grad="dout / (1 + x * x)")
unary("sinh", "sinh(x)", grad="dout * cosh(x)")
unary("cosh", "cosh(x)", grad="dout * sinh(x)")
unary("reciprocal", "1 / x", grad="-dout * out * out")
unary("log", "log(x)", grad="dout / x")
unary("log1p", "log1p(x)", grad="dout / (1 + x)")
unary("square", "x * x", grad="dout * 2 * x")
unary("softplus", "maximum(x, 0) + log1p(exp(-abs(x)))", grad="dout * sigmoid(x)")
unary("softsign", "x / (1 + abs(x))", grad="dout / ((1 + abs(x)) * (1 + abs(x)))")
unary("brelu", "minimum(maximum(x, t_min), t_max)", grad="dout * ((x > t_min) & (x < t_max))",
      attrs={"t_min": 0.0, "t_max": 24.0})
unary("leaky_relu", "where(x > 0, x, alpha * x)", grad="where(x > 0, dout, alpha * dout)", attrs={"alpha": 0.02})
unary("soft_relu", "log(1 + exp(minimum(maximum(x, -threshold), threshold)))",
      grad="dout * (1 - exp(-out)) * ((out > -threshold) & (out < threshold))", attrs={"threshold": 40.0})
unary("elu", "where(x > 0, x, alpha * (exp(x) - 1))", grad="dout * where(x > 0, 1.0, alpha * exp(x))", attrs={"alpha": 1.0})
unary("relu6", "minimum(maximum(x, 0), threshold)", grad="dout * ((out > 0) & (out < threshold))", attrs={"threshold": 6.0})
unary("pow", "pow(x, factor)", grad="dout * factor * pow(x, factor - 1)", attrs={"factor": 1.0})
unary("stanh", "scale_b * tanh(scale_a * x)", grad="dout * scale_a * scale_b * (1 - tanh(scale_a * x) * tanh(scale_a * x))",
      attrs={"scale_a": 0.67, "scale_b": 1.7159})
unary("hard_sigmoid", "minimum(maximum(slope * x + offset, 0), 1)", grad="dout * slope * ((out > 0) & (out < 1))",
      attrs={"slope": 0.2, "offset": 0.5})
unary("swish", "x * sigmoid(beta * x)", grad="dout * (sigmoid(beta * x) + beta * out * (1 - sigmoid(beta * x)))",
      attrs={"beta": 1.0})
unary("hard_swish", "x * minimum(maximum(x + offset, 0), threshold) / scale",
      grad="dout * where(x + offset < 0, 0.0, where(x + offset > threshold, threshold / scale, (2 * x + offset) / scale))",
      attrs={"threshold": 6.0, "scale": 6.0, "offset": 3.0})
unary("thresholded_relu", "where(x > threshold, x, 0.0)", grad="dout * (x > threshold)", attrs={"threshold": 1.0})
unary("hard_shrink", "where((x > threshold) | (x < -threshold), x, 0.0)", grad="dout * ((x > threshold) | (x < -threshold))",
      attrs={"threshold": 0.5})
unary("softshrink", "where(x > lambda_, x - lambda_, where(x < -lambda_, x + lambda_, 0.0))",
      grad="dout * ((x > lambda_) | (x < -lambda_))", attrs={"lambda": 0.5})
unary("tanh_shrink", "x - tanh(x)", grad="dout * tanh(x) * tanh(x)")
unary("erf", "erf(x)", grad="dout * 1.1283791670955126 * exp(-x * x)")
unary("sign", "sign(x)", grad="dout * 0.0")
