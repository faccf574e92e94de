"""Names and errors of the jobs that run in the caller's session."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from antecede.errors import AntecedeError, ConfigError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["described", "explained", "session_of"]

DESCRIPTION = "spark.job.description"
HINTS = {
    r"No module named '(antecede|pyarrow|numpy|numba)": (
        "the workers of Spark have no {0}, or another version: install this version of"
        " antecede[trace] there"
    ),
    r"PYTHON_VERSION_MISMATCH": "the workers of Spark need the same Python as this program",
}
"""Patterns of Spark's error messages, and the messages to raise instead."""


@contextmanager
def described(where: "DataFrame | SparkSession", text: str) -> Iterator[None]:
    """Describe the jobs of the block in Spark's UI; restore the caller's description.

    In a Connect session, which has no descriptions, the jobs get the tag ``antecede``.
    """
    session = where.sparkSession if hasattr(where, "sparkSession") else where
    try:
        context = session.sparkContext
    except Exception:  # Connect sessions have no context; the exception type varies.
        has_tag = "antecede" in session.getTags()
        session.addTag("antecede")
        try:
            yield
        finally:
            if not has_tag:
                session.removeTag("antecede")
        return
    before = context.getLocalProperty(DESCRIPTION)
    context.setLocalProperty(DESCRIPTION, text)
    try:
        yield
    finally:
        context.setLocalProperty(DESCRIPTION, before)  # type: ignore[arg-type]


@contextmanager
def explained() -> Iterator[None]:
    """Replace errors of Spark that have a known cause by one line that names it."""
    try:
        yield
    except AntecedeError:
        raise
    except Exception as error:
        for pattern, hint in HINTS.items():
            found = re.search(pattern, str(error))
            if found is not None:
                raise ConfigError(hint.format(*found.groups())) from error
        raise


def session_of(session: "SparkSession | None") -> "SparkSession":
    """Return the session, or the active one; raise ConfigError if there is none."""
    from pyspark.sql import SparkSession

    found = session if session is not None else SparkSession.getActiveSession()
    if found is None:
        raise ConfigError("no Spark session is active: pass session=...")
    return found
