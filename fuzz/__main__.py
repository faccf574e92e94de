"""Fuzz the engine: ``python -m fuzz [SECONDS | FILE]``.

With atheris, code coverage guides the generation of scripts. Atheris measures interpreted
modules only, so set ``PYTHONPATH=src`` to hide an installed, compiled build. Without
atheris the scripts are random. With a file, run the one script in it: atheris writes such a
file for each defect that it finds.
"""

import random
import sys
import time
from collections.abc import Callable
from pathlib import Path

__all__ = ["main"]

SCRIPT_BYTES_MAX = 1024


def run_random_scripts(
    run: Callable[[bytes], object], seconds: float, seed: int = 0
) -> int:
    """Run random scripts for some time, and return how many."""
    source = random.Random(seed)
    ends = time.monotonic() + seconds
    count = 0
    while time.monotonic() < ends:
        script = source.randbytes(source.randrange(1, SCRIPT_BYTES_MAX))
        try:
            run(script)
        except Exception:
            print(f"defect found by the script {script.hex()}", file=sys.stderr)
            raise
        count += 1
    return count


def main(arguments: list[str]) -> int:
    """Fuzz for a number of seconds, 60 by default, or run the script in a file."""
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
        print(f"{count} random scripts, no defect found")
        print("atheris is not installed: scripts were not guided by coverage")
    else:
        options = [
            f"-max_total_time={argument}",
            f"-max_len={SCRIPT_BYTES_MAX}",
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
