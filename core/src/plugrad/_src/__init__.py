"""Private modules: any of them may change in any version."""
