"""Published models for other programs: graphs of ONNX, trees of Treelite."""
