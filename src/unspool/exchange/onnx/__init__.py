"""Networks as ONNX, emitted from their equations: nothing here needs torch."""
