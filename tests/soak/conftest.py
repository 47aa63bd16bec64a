"""The duration of each soak test."""

import pytest


@pytest.fixture
def seconds(request):
    chosen = request.config.getoption("--soak-seconds")
    if chosen is not None:
        return chosen
    return 5.0 if request.config.getoption("--all") else 0.5
