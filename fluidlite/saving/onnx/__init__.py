"""Models as ONNX files (extra `[onnx]`): a table of rules, one for each type of op."""
