"""plugrad-onnx needs onnx, and most tests compare with ONNX Runtime."""

import pytest

pytest.importorskip("onnx", reason="onnx has no wheel for this Python")
