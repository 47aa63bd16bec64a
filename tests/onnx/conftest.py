"""Skip these tests where onnx, which plugrad-onnx needs, is not installed."""

import pytest

pytest.importorskip("onnx", reason="onnx has no wheel for this Python")
