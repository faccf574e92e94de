"""Read traces in foreign formats, and infer happened-before from them.

Each format has a reader that yields records (:mod:`antecede.ingest.formats.records`).
:func:`ingest` infers the messages from the records and writes a trace, which
:func:`antecede.verify.verify_trace` verifies. :mod:`antecede.pipeline.spark.data_sources`
provides the same readers to Spark.

This package needs the extra ``antecede[trace]``.
"""

from antecede.ingest.conversion import IngestedRun, ingest
from antecede.ingest.diagnostics import (
    Diagnostic,
    Diagnostics,
    IngestSummary,
    SourceLocation,
)
from antecede.ingest.formats.records import ReadOptions
from antecede.ingest.formats.registry import FORMATS, Format, detect_format
from antecede.ingest.skew import Skew
from antecede.ingest.verdict import IngestedVerdict

__all__ = [
    "FORMATS",
    "Diagnostic",
    "Diagnostics",
    "Format",
    "IngestSummary",
    "IngestedRun",
    "IngestedVerdict",
    "ReadOptions",
    "Skew",
    "SourceLocation",
    "detect_format",
    "ingest",
]
