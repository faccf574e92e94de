"""Fuzz the engine: ``python -m fuzz [SECONDS | FILE]``.

With ``SECONDS``, the program generates scripts and runs them for this time. If atheris is
installed, code coverage guides the generation; otherwise the scripts are random. Atheris
measures the coverage of interpreted modules only, so set ``PYTHONPATH=src`` to hide an
installed, compiled build.

With ``FILE``, the program runs the script in the file. Atheris writes such a file for each
defect that it finds.
"""

import random
import sys
import time
from collections.abc import Callable
from pathlib import Path

__all__ = ["main"]

GENERATED_BYTES_MAX = 1024
"""The maximum length of a generated script."""


def run_random_scripts(
    run: Callable[[bytes], object], seconds: float, seed: int = 0
) -> int:
    """Run random scripts for a number of seconds, and return the number of scripts."""
    rng = random.Random(seed)
    deadline = time.monotonic() + seconds
    count = 0
    while time.monotonic() < deadline:
        script = rng.randbytes(rng.randrange(1, GENERATED_BYTES_MAX))
        try:
            run(script)
        except Exception:
            print(f"defect found by the script {script.hex()}", file=sys.stderr)
            raise
        count += 1
    return count


def main(arguments: list[str]) -> int:
    """Fuzz for a number of seconds, by default 60, or run the script in a file."""
    argument = arguments[0] if arguments else "60"
    try:
        import atheris  # type: ignore[import-untyped, unused-ignore]
    except ImportError:
        atheris = None
    if atheris is not None:
        with atheris.instrument_imports(include=["antecede"]):
            from fuzz.datagrams import run_script
    else:
        from fuzz.datagrams import run_script
    if not argument.isdigit():
        run_script(Path(argument).read_bytes())
        print("no defect found")
    elif atheris is None:
        count = run_random_scripts(run_script, float(argument))
        print(f"no defect found by {count} random scripts")
        print("atheris is not installed, so coverage did not guide the scripts")
    else:
        options = [
            f"-max_total_time={argument}",
            f"-max_len={GENERATED_BYTES_MAX}",
            "-len_control=0",
            "-timeout=10",
        ]

        def one_input(script: bytes) -> None:
            run_script(script)

        atheris.Setup([sys.argv[0], *options], one_input)
        atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
