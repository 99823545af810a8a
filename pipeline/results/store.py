"""Where results lie: a local folder, a bucket of S3, or any other URL that fsspec reaches, behind one set of file operations."""

from __future__ import annotations

from pipeline.errors import PlaceError
from pipeline.files import absolute, is_url, no_library
from pipeline.results.at_url import Store
from pipeline.results.on_disk import LocalStore
from pipeline.results.on_s3 import SCHEMES, S3Store
from pipeline.urls import hidden, refusal


def open_store(place: str) -> Store:
    """The store at a folder or a URL; raises PlaceError where no installed library handles that kind of URL."""
    if not is_url(place):
        return LocalStore(place, absolute(place))
    if why := refusal(place):
        raise PlaceError(f"{hidden(place)}: {why}.")
    import fsspec.core

    try:
        _, root = fsspec.core.url_to_fs(place)
    except (ImportError, ValueError) as error:
        raise PlaceError(f"{place}: {no_library(place, 'writes', error)} or choose another place with --out.") from error
    kind = S3Store if place.partition("://")[0] in SCHEMES else Store
    return kind(place, str(root))


def unreadable(place: str, error: OSError) -> PlaceError:
    """A results place that cannot be read."""
    return PlaceError(f"{place}: {error}. Mend that, or choose another place with --out.")
