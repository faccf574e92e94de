"""Run the code cells of a notebook in one program, as a kernel does; print JSON.

The settings of the session are compared from the first cell, which creates it, to the end.
"""

import ast
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from antecede.pipeline.spark.java import java_home
from tests.spark.test_session import settings


def displayed(value: object) -> list[str]:
    """Return the types that a notebook can display a value in."""
    if hasattr(value, "_repr_mimebundle_"):
        return sorted(value._repr_mimebundle_())
    return ["text/html"] if hasattr(value, "_repr_html_") else ["text/plain"]


def run_cell(source: str, names: dict[str, Any]) -> list[str]:
    """Run a cell; return the types of its displayed value, if it ends in an expression."""
    tree = ast.parse(source)
    last = tree.body[-1]
    if not isinstance(last, ast.Expr):
        exec(compile(tree, "cell", "exec"), names)
        return []
    tree.body.pop()
    exec(compile(tree, "cell", "exec"), names)
    value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
    if hasattr(value, "_repr_html_"):
        value._repr_html_()
    return [] if value is None else displayed(value)


def main(notebook: Path) -> None:
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    sources = ["".join(each["source"]) for each in cells if each["cell_type"] == "code"]
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["JAVA_HOME"] = str(java_home(Path(scratch)))
        os.environ["JAVA_TOOL_OPTIONS"] = "-XX:+UseSerialGC"
        os.environ["PYSPARK_PYTHON"] = sys.executable
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
        names: dict[str, Any] = {}
        shown = [run_cell(sources[0], names)]
        before = settings(names["spark"])
        shown += [run_cell(source, names) for source in sources[1:]]
        found = {
            "shown": shown,
            "unchanged": settings(names["spark"]) == before,
            "teams": [row.asDict() for row in names["by_team"].collect()],
            "protocols": [row.protocol for row in names["latency"].collect()],
            "simulated": names["study"].outcome.simulated,
            "loaded": all(
                getattr(names["again"], name).count()
                for name in ("cells", "verdicts", "measures", "summary", "copies", "events")
            ),
            "advice": names["advice"].protocol,
            "calls": [row.text for row in names["calls"].violations.collect()],
            "streamed": names["streamed"],
            "listed": names["violations"].count(),
            "alive": names["spark"].range(3).count(),
        }
        print(json.dumps(found))
        names["spark"].stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
