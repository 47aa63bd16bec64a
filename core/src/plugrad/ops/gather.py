"""Gathering by indices."""
