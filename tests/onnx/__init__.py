"""Tests of plugrad-onnx, which loads and saves ONNX models."""
