"""What ``make dist`` and ``make dist-check`` run: see docs/releasing.md."""
