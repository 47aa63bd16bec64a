"""The backend opencl itself."""
