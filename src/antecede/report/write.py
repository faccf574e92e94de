"""Write the report of finished studies."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from antecede.errors import StorageError
from antecede.report.charts.budget import budget_figures
from antecede.report.charts.costs import cost_charts
from antecede.report.charts.figures import make_figures
from antecede.report.claims.claim import Claim, ClaimResult
from antecede.report.claims.papers import evaluate_claims
from antecede.report.comparison import main_configuration, unordered_protocols
from antecede.report.export import render_svg, write_claims, write_svg, write_tables
from antecede.report.page import Content, render_page
from antecede.report.rendering import write_atomically
from antecede.report.schedule import draw_schedule
from antecede.report.tables import Tables, read_tables

__all__ = ["ReportFiles", "write_report"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportFiles:
    """The files of a report, the tables it was made from, and the results of the claims."""

    page: Path
    figures: tuple[Path, ...]
    csv_tables: tuple[Path, ...]
    tables: Tables
    claim_results: tuple[tuple[Claim, ClaimResult], ...]


def write_report(directories: Sequence[Path], out: Path) -> ReportFiles:
    """Write the page to ``out``, and its figures and tables to a directory beside it.

    The directory is named after the page: ``report_files`` for ``report.html``. Figures and
    tables of an earlier report in it are removed.

    Args:
        directories: Directories of finished studies, or directories that contain some.
        out: The file of the page; any browser can open it.

    Raises:
        ConfigError: A directory has no finished study.
        StorageError: A file cannot be read or written.
    """
    tables = read_tables(directories)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"cannot write {out}: {error.strerror}") from error
    beside = out.parent / f"{out.stem}_files"
    configuration = main_configuration(tables)
    costs = []
    if configuration is not None:
        costs = cost_charts(configuration, unordered_protocols(tables, configuration))
    budgets = budget_figures(tables)
    figures = make_figures(tables)
    drawings = draw_schedule()
    results = evaluate_claims(tables)
    page = render_page(
        Content(
            tables=tables,
            configuration=configuration,
            costs=costs,
            budgets=budgets,
            figures=figures,
            drawings=drawings,
            claim_results=results,
            files_directory=beside.name,
        )
    )
    svgs = {
        **{cost.id: render_svg(cost.sheet) for cost in costs},
        **{budget.id: render_svg(budget.sheet) for budget in budgets},
        **{figure.id: render_svg(figure.sheet) for figure in figures},
        **{f"schedule-{drawing.protocol}": drawing.svg for drawing in drawings},
    }
    try:
        for old in (*beside.glob("figures/*.svg"), *beside.glob("tables/*.csv")):
            old.unlink()
        figure_paths = write_svg(svgs, beside / "figures")
        table_paths = write_tables(tables, beside / "tables")
        table_paths.append(write_claims(results, beside / "tables"))
    except OSError as error:
        raise StorageError(f"cannot write {error.filename}: {error.strerror}") from error
    write_atomically(out, page)
    return ReportFiles(
        page=out,
        figures=tuple(figure_paths),
        csv_tables=tuple(table_paths),
        tables=tables,
        claim_results=tuple(results),
    )
