"""The examples run, and show what they say they show."""

import ast
import asyncio
import runpy
import sys
from pathlib import Path

import pytest

from antecede import Limits, Node
from tests.net.simulated import Group

EXAMPLES = Path(__file__).parent.parent / "examples"


def run(path: Path) -> None:
    """Run an example as one would from a shell, without arguments."""
    arguments, sys.argv = sys.argv, [str(path)]
    try:
        runpy.run_path(str(path), run_name="__main__")
    finally:
        sys.argv = arguments


def test_the_bank_sees_the_payment_before_the_question_about_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    runpy.run_path(str(EXAMPLES / "bank_and_shop.py"), run_name="__main__")
    assert capsys.readouterr().out.splitlines() == [
        "shop delivers 'an order'",
        "bank delivers 'a payment'",
        "bank delivers 'is it paid?'",
    ]


def test_the_chat_shows_both_answers_after_the_question(
    capsys: pytest.CaptureFixture[str],
) -> None:
    run(EXAMPLES / "chat.py")
    lines = capsys.readouterr().out.splitlines()
    assert sorted(lines[:2]) == [
        "[ann sees] bob: yes, at the fountain",
        "[ann sees] eve: I cannot come",
    ]
    assert len(lines) == 3


def test_the_shop_knows_of_the_payment(capsys: pytest.CaptureFixture[str]) -> None:
    run(EXAMPLES / "bank_shop_customer.py")
    assert capsys.readouterr().out == "hybrid: the shop says: here you are\n"


def test_the_bank_does_not_block_a_customer_who_pays_often_and_receives_later() -> None:
    example = runpy.run_path(str(EXAMPLES / "bank_shop_customer.py"))
    limits = Limits(inbox_messages_max=10, window_copies_max=10)
    received: list[bytes] = []

    async def pay_often(customer: Node) -> None:
        for account in range(200):
            await customer.send("bank", b"pay from %d" % account)
        received.extend([(await customer.receive()).data for _ in range(200)])

    with Group() as group:
        group.open_all("bank", "customer", receive=False, limits=limits)
        group.open("shop", "bank", limits=limits)
        group.add_peer("bank", "shop")
        answers: asyncio.Queue[tuple[str, bytes]] = asyncio.Queue()
        group.start_task("bank", lambda bank: example["run_bank"](bank, answers))
        group.start_task("bank", lambda bank: example["send_answers"](bank, answers))
        group.start_task("customer", pay_often)
        group.run(60)
    assert received == [b"confirmed: %d" % account for account in range(200)]


def test_all_replicas_of_the_set_end_with_the_same(
    capsys: pytest.CaptureFixture[str],
) -> None:
    run(EXAMPLES / "replicated_set.py")
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert len(set(lines)) == 1


def test_the_nodes_of_the_demonstration_receive_all_messages(
    capsys: pytest.CaptureFixture[str],
) -> None:
    run(EXAMPLES / "chatter.py")
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [words[0] for words in lines] == ["ann", "bob", "eve"]
    sent = sum(int(words[2].rstrip(",")) for words in lines)
    received = sum(int(words[-1]) for words in lines)
    assert 60 < sent <= received  # With answers; a broadcast is received twice.


def test_three_writers_end_with_the_same_text_and_see_each_other(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The words of each writer stay in order, and no word is lost."""
    pytest.importorskip("pycrdt")
    run(EXAMPLES / "shared_text.py")
    lines = capsys.readouterr().out.splitlines()
    heads, texts = zip(*(line.split(" and: ") for line in lines), strict=True)
    assert sorted(heads) == [f"{name} sees ann, bob, eve" for name in ("ann", "bob", "eve")]
    (text,) = set(texts)
    words = text.split()
    assert len(words) == 12
    for part in ("Ann was here first.", "Bob came much later.", "Eve saw it all."):
        assert [word for word in words if word in part.split()] == part.split()


def test_the_payment_fails_with_fifo_and_holds_with_hybrid(
    capsys: pytest.CaptureFixture[str],
) -> None:
    run(EXAMPLES / "test_payment_under_faults.py")
    fifo, hybrid = capsys.readouterr().out.splitlines()
    assert fifo.startswith("fifo fails with seed")
    assert hybrid == "hybrid holds"


def test_the_payment_runs_on_real_sockets_too() -> None:
    """The coroutines that ran in the simulation run unchanged."""
    example = runpy.run_path(str(EXAMPLES / "test_payment_under_faults.py"))

    async def main() -> None:
        roles = [example[role]("hybrid") for role in ("run_shop", "run_bank")]
        daemons = [asyncio.create_task(role) for role in roles]
        await asyncio.wait_for(example["run_customer"]("hybrid"), 60)
        for task in daemons:
            assert not task.done()
            task.cancel()
        await asyncio.gather(*daemons, return_exceptions=True)

    asyncio.run(main())


def test_every_example_is_tested_and_short() -> None:
    names = {path.name for path in EXAMPLES.glob("*.py")}
    nodes = {
        "chat.py",
        "chatter.py",
        "bank_shop_customer.py",
        "replicated_set.py",
        "shared_text.py",
    }
    services = {"shop.py", "web_service.py", "whiteboard.py"}
    assert names == nodes | services | {"bank_and_shop.py", "test_payment_under_faults.py"}
    for name in names:
        assert len((EXAMPLES / name).read_text(encoding="utf-8").splitlines()) < 115
    assert code_lines(EXAMPLES / "whiteboard.py") <= 60


def code_lines(path: Path) -> int:
    """Return the number of lines without comments, docstrings and empty lines."""
    text = path.read_text(encoding="utf-8")
    bodies = [node.body for node in ast.walk(ast.parse(text)) if hasattr(node, "body")]
    prose: set[int] = set()
    for body in bodies:
        first = body[0] if isinstance(body, list) and body else None
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
            prose |= set(range(first.lineno, (first.end_lineno or 0) + 1))
    lines = enumerate(text.splitlines(), start=1)
    return sum(
        bool(line.strip()) and not line.strip().startswith("#") and number not in prose
        for number, line in lines
    )
