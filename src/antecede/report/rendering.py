"""Render HTML pages that work offline, and write files atomically."""

import json
import os
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from threading import Lock, Thread
from typing import Any

import antecede
from antecede.errors import StorageError

__all__ = ["package_text", "prepare_rendering", "render_template", "write_atomically"]

_bundle_lock = Lock()


def render_template(name: str, context: Mapping[str, Any]) -> str:
    """Render a template of this package; all texts are escaped.

    The template gets the version, the style sheet, the script that sorts tables, and the
    charting library in addition to the context.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("antecede.report"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    environment.filters["json"] = _json
    shared = {
        "version": antecede.__version__,
        "style": package_text("style.css"),
        "tables_script": package_text("tables.js"),
        "bundle": _bundle(),
    }
    return environment.get_template(name).render(**shared, **context)


def package_text(name: str) -> str:
    """Return the text of a file of this package."""
    return files("antecede.report").joinpath(name).read_text(encoding="utf-8")


def write_atomically(path: Path, text: str) -> None:
    """Write a file: it has its old content, or none, until it has all of the new.

    Raises:
        StorageError: The file cannot be written.
    """
    partial = path.with_name(f".{path.name}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            partial.write_text(text, encoding="utf-8")
            os.replace(partial, path)
        except OSError:
            partial.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror}") from error


def prepare_rendering() -> None:
    """Begin to make what every page contains, in another thread.

    Making the charting library takes a second of a core, and does not depend on the page.
    """
    Thread(target=_bundle, daemon=True).start()


def _bundle() -> str:
    """Return the charting library, escaped for a script element."""
    with _bundle_lock:  # A second thread waits for the result of the first.
        return _make_bundle()


@cache
def _make_bundle() -> str:
    import vl_convert

    bundle: str = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    return bundle.replace("</script", "<\\/script")


def _json(value: object) -> str:
    """Return JSON that is escaped for a script element."""
    from markupsafe import Markup

    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return Markup(text)
