"""The tests that every backend of plugrad passes, and the pytest plugin for them."""
