"""ONNX files as programs (extra `[onnx]`): files, values, and a rule for each ONNX op."""
