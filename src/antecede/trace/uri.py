"""Recognize URIs, and remove credentials from them.

A URI can contain credentials in its user info and in the values of its query.
"""

import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

from antecede.errors import ConfigError

__all__ = ["is_uri", "local_path", "redact", "redact_uri"]

HIDDEN = "***"

_URI = re.compile(
    r"(?<![\w+.-])([A-Za-z][A-Za-z0-9+.-]+)(://|:(?=/))([^\s'\"<>]*?)(?=[:;,.)]*(?:[\s'\"<>]|$))"
)
_WHOLE_URI = re.compile(r"([^:]+)(://)(.*)", re.DOTALL)


def is_uri(where: str | Path) -> bool:
    """Return whether a text is a URI; a Path never is one."""
    return isinstance(where, str) and (
        re.match(r"[A-Za-z][A-Za-z0-9+.-]+://", where) is not None
        or where.lower().startswith("file:/")
    )


def local_path(where: str | Path) -> Path | None:
    """Return the path on this machine, or None for a URI of a store.

    Raise ConfigError if a ``file:`` URI names another host.
    """
    if not is_uri(where):
        return Path(where)
    parts = urlsplit(str(where))
    if parts.scheme != "file":
        return None
    if parts.netloc not in ("", "localhost"):
        raise ConfigError(f"{redact_uri(str(where))}: a file: URI must not name a host")
    return Path(unquote(parts.path))


def redact(text: str) -> str:
    """Replace the user info and the values of the query of every URI in a text."""
    return _URI.sub(_hide, text)


def redact_uri(uri: str) -> str:
    """Return one URI as :func:`redact` does, even if it contains spaces or quotes."""
    found = _WHOLE_URI.fullmatch(uri)
    return uri if found is None else _hide(found)


def _hide(found: re.Match[str]) -> str:
    rest, mark, query = found[3].partition("?")
    authority = rest.partition("/")[0]
    # A secret can contain a slash, which should have been encoded.
    if "@" in authority or (":" in authority and "@" in rest):
        rest = f"{HIDDEN}@{rest.rpartition('@')[2]}"
    names = [each.partition("=")[0] for each in query.split("&") if "=" in each]
    values = "&".join(f"{name}={HIDDEN}" for name in names)
    hidden = values or (HIDDEN if query else "")
    return f"{found[1]}{found[2]}{rest}{mark}{hidden}"
