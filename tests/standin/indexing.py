"""What indexes a device array: its own kind; host arrays and lists, which are copied to the device first; numbers and slices."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.standin import counts


def keys_of(key: Any) -> tuple[Any, ...]:
    """The indices of the axes."""
    return key if isinstance(key, tuple) else (key,)


def is_advanced(key: Any) -> bool:
    """Whether an index has an array among its own."""
    return any(_is_array(each) for each in keys_of(key))


def host_index(key: Any, *, waits: bool) -> Any:
    """An index as NumPy takes it. Host arrays are counted as copied; with `waits` so is the wait for how many a mask lets through."""
    found = tuple(_host_of(each, waits=waits) for each in keys_of(key))
    return found if isinstance(key, tuple) else found[0]


def count_advanced(key: Any, array: np.ndarray[Any, Any], chosen: Any, *, scanned: bool) -> None:
    """Count the launches that read or write the elements `chosen` by an advanced index; `scanned` says that masks are added up."""
    indices, chosen = [each for each in keys_of(key) if _is_array(each)], np.asarray(chosen)
    masks = sum(_dtype(index) == np.bool_ for index in indices)
    counts.launched(chosen, chosen, kernel=("take", array.dtype.char, array.ndim, len(indices)))
    if masks and scanned:
        counts.launched(*(np.asarray(getattr(index, "host", index)) for index in indices), times=2 * masks, kernel=("scan", masks))
    if len(indices) > 1:  # each is wrapped and added up to one index of 64 bits an element
        counts.launched(*[np.empty(chosen.shape, np.int64)] * 3, times=2 * len(indices), kernel=("index", array.ndim))


def _is_array(key: Any) -> bool:
    return hasattr(key, "host") or isinstance(key, (np.ndarray, list))


def _dtype(key: Any) -> Any:
    return key.dtype if hasattr(key, "dtype") else np.asarray(key).dtype


def _host_of(key: Any, *, waits: bool) -> Any:
    if not _is_array(key):
        return key
    if isinstance(key, list) and not key:
        return np.zeros(0, np.int32)
    found = np.asarray(key.host if hasattr(key, "host") else key)
    if not hasattr(key, "host"):
        counts.sent(found.nbytes)
    if found.dtype == np.bool_ and waits:
        counts.waited()
    return found
