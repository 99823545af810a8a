"""Which URLs a job may name: of one place that is said openly, and without a password; and how a password is kept out of what is shown."""

from __future__ import annotations

import re

USER_PASSWORD = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*://)(?P<user>[^\s/:@]*):(?![0-9]+(?:[/?#]|$))\S+@", re.IGNORECASE)
MASK = "***"
WEB = ("http", "https")

INDIRECT = frozenset(
    {
        *("async_wrapper", "asyncwrapper", "asynclocal", "blockcache", "cached", "filecache", "simplecache"),
        *("dask", "data", "dir", "generic", "git", "jlab", "jupyter", "libarchive", "pyscript", "reference", "tar", "zip"),
    }
)
"""Kinds of URL of fsspec that keep copies elsewhere, read other places by what a file says (templates, too), or ask other programs."""


def hidden(text: str) -> str:
    """A text with the passwords of its URLs hidden."""
    return USER_PASSWORD.sub(lambda match: f"{match['scheme']}{match['user']}:{MASK}@", text)


def openly(place: str) -> str:
    """The path or URL; raises ValueError where it is not to be used."""
    if why := refusal(place):
        raise ValueError(why)
    return place


def refusal(place: str) -> str:
    """Why a path or URL is not to be used; '' where nothing speaks against it. The place is not in what is said."""
    kind, there, _ = place.partition("://")
    if there and (kind in INDIRECT or ("::" in place and kind not in WEB)):  # a host of the web may be [::1]
        return "a URL that leads to another place is not used, as what is there may name any other. Give the place itself"
    if USER_PASSWORD.match(place):
        remedy = "Give a URL without one, and the password by the environment, as in FSSPEC_SFTP_PASSWORD (docs/stores.md)"
        return f"a password in a URL would stand in records and errors. {remedy}"
    return ""


def is_web(path: object) -> bool:
    """Whether a path is a URL of an HTTP server."""
    return str(path).startswith(("http://", "https://"))
