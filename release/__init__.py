"""What ``make dist`` and ``make dist-check`` run: see CONTRIBUTING.md, Release."""
