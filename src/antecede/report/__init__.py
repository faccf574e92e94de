"""The report: one page, its figures as SVG and its tables as CSV, from tables of studies.

:func:`write_report` makes it. It needs the extras ``antecede[report,trace]``, no Spark, and
runs nothing but one small schedule, which it draws. It is loaded when first used.
"""

import importlib
import typing

if typing.TYPE_CHECKING:
    from antecede.report.write import ReportFiles, write_report

__all__ = ["ReportFiles", "write_report"]


def __getattr__(name: str) -> object:
    """Load what is asked for."""
    if name not in __all__:
        raise AttributeError(f"module 'antecede.report' has no attribute {name!r}")
    value: object = getattr(importlib.import_module("antecede.report.write"), name)
    globals()[name] = value
    return value
