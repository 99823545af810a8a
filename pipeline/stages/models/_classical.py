"""The libraries of the extra `classical`: what is said where one is missing."""

from __future__ import annotations

from importlib.util import find_spec

from pipeline.errors import PlaceError


def need_statsmodels() -> None:
    """Raise PlaceError, with what to install, where statsmodels is not installed."""
    _need("statsmodels", "statsmodels")


def need_scikit_learn() -> None:
    """Raise PlaceError, with what to install, where scikit-learn is not installed."""
    _need("sklearn", "scikit-learn")


def _need(module: str, library: str) -> None:
    if find_spec(module) is None:
        raise PlaceError(f"{library} is not installed. Install it with: pip install '.[classical]'")
