"""Verification, studies and advice for Spark: DataFrames in, DataFrames out.

All functions work in the session of the caller, classic or Connect. They never stop it,
and change none of its settings. ``spark.read.format("antecede.jaeger")`` and other data
sources are registered by :func:`register`, and at the import of this package for the
session that is active then.

This package needs the extras ``antecede[spark,trace]``, on the workers ``antecede[trace]``.
"""

from importlib.util import find_spec as _find_spec

from antecede.errors import ConfigError as _ConfigError

if _find_spec("pyspark") is None:
    raise _ConfigError("antecede.spark needs Spark: pip install 'antecede[spark]'")

from antecede.spark.advice import AdviceResult, advise
from antecede.spark.simulation import SimulatedRuns, simulate
from antecede.spark.sources import (
    read_trace_stream,
    read_traces,
    register,
    register_active,
)
from antecede.spark.streams import verify_stream
from antecede.spark.studies import (
    StudyResult,
    load_study,
    measure,
    report,
    run_study,
)
from antecede.spark.verification import Verification, verify

__all__ = [
    "AdviceResult",
    "SimulatedRuns",
    "StudyResult",
    "Verification",
    "advise",
    "load_study",
    "measure",
    "read_trace_stream",
    "read_traces",
    "register",
    "report",
    "run_study",
    "simulate",
    "verify",
    "verify_stream",
]

register_active()
