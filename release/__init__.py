"""Commands behind ``make dist`` and ``make dist-check``: see docs/releasing.md."""
