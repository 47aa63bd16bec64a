"""Tests of plugrad-onnx: models of ONNX."""
