"""Tests of plugrad-attribution."""
