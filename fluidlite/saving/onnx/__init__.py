"""Models as ONNX files (extra `[onnx]`): graphs in the making, files, and runs beside onnxruntime."""
