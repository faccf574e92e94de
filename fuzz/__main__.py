"""Fuzz the engine: ``python -m fuzz [SECONDS | FILE]``.

With atheris, scripts are made under the guidance of coverage; it sees the source only
where that is interpreted, so let ``PYTHONPATH=src`` come before an installed, compiled
build. Without atheris the scripts are random, and it says so. Given a file, it plays the
one script in it: atheris leaves such a file behind when something breaks.
"""

import random
import sys
import time
from collections.abc import Callable
from pathlib import Path

__all__ = ["main"]

SCRIPT_BYTES_MAX = 1024


def play_at_random(play: Callable[[bytes], object], seconds: float, seed: int = 0) -> int:
    """Play random scripts for some time, and return how many."""
    source = random.Random(seed)
    ends = time.monotonic() + seconds
    played = 0
    while time.monotonic() < ends:
        script = source.randbytes(source.randrange(1, SCRIPT_BYTES_MAX))
        try:
            play(script)
        except Exception:
            print(f"the script that broke it: {script.hex()}", file=sys.stderr)
            raise
        played += 1
    return played


def main(arguments: list[str]) -> int:
    """Fuzz for so many seconds, 60 unless told, or play the script in a file."""
    what = arguments[0] if arguments else "60"
    try:
        import atheris  # type: ignore[import-untyped, unused-ignore]
    except ImportError:
        atheris = None
    if atheris is not None:
        with atheris.instrument_imports(include=["antecede"]):
            from fuzz.datagrams import play
    else:
        from fuzz.datagrams import play
    if not what.isdigit():
        play(Path(what).read_bytes())
        print("nothing broke")
    elif atheris is None:
        print(f"{play_at_random(play, float(what))} random scripts; nothing broke")
        print("atheris is not installed: no coverage guided the search")
    else:
        options = [
            f"-max_total_time={what}",
            f"-max_len={SCRIPT_BYTES_MAX}",
            "-len_control=0",
            "-timeout=10",
        ]

        def one_input(script: bytes) -> None:
            play(script)

        atheris.Setup([sys.argv[0], *options], one_input)
        atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
