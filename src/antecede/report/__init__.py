"""The report of studies: one HTML page, its figures as SVG files, its tables as CSV files.

:func:`write_report` writes a report from the tables of finished studies. It needs the
extras ``antecede[report,trace]``, but not Spark. The package is loaded on first use.
"""

import importlib
import typing

if typing.TYPE_CHECKING:
    from antecede.report.write import ReportFiles, write_report

__all__ = ["ReportFiles", "write_report"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'antecede.report' has no attribute {name!r}")
    value: object = getattr(importlib.import_module("antecede.report.write"), name)
    globals()[name] = value
    return value
