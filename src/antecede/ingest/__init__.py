"""Traces that others recorded: read them, find happened-before, judge them.

Each format has a reader, which yields records (:mod:`antecede.ingest.formats.records`); from these
:func:`ingest` makes a trace of our own. :mod:`antecede.pipeline.spark.data_sources` has the same
readers for Spark.

This package needs the extra ``antecede[trace]``.
"""

from antecede.ingest.conversion import Ingested, ingest
from antecede.ingest.diagnostics import Finding, Findings, Place, Skew
from antecede.ingest.formats.records import Options
from antecede.ingest.formats.registry import FORMATS, Format, find_format
from antecede.ingest.verdict import ForeignReport

__all__ = [
    "FORMATS",
    "Finding",
    "Findings",
    "ForeignReport",
    "Format",
    "Ingested",
    "Options",
    "Place",
    "Skew",
    "find_format",
    "ingest",
]
