"""The examples run, and show what they say they show."""

import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


def test_the_bank_sees_the_payment_before_the_question_about_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    runpy.run_path(str(EXAMPLES / "bank_and_shop.py"), run_name="__main__")
    assert capsys.readouterr().out.splitlines() == [
        "shop delivers 'an order'",
        "bank delivers 'a payment'",
        "bank delivers 'is it paid?'",
    ]


def test_every_example_is_tested() -> None:
    assert [path.name for path in EXAMPLES.glob("*.py")] == ["bank_and_shop.py"]
