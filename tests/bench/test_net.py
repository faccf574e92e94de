"""The benchmark of the node: its peers receive every message, and its table is right."""

import importlib.util
from collections.abc import Mapping

import pytest
from bench.net_processes import BenchmarkError
from bench.net_rows import Cost, Measurement, Ratio, make_measurements, make_ratios
from bench.net_streams import MessageParser, frame_messages
from bench.net_task import check_payloads

from bench import net

MESSAGES = 640
PROTOCOLS = ("bounded", "hybrid")


def test_messages_are_found_wherever_the_stream_is_cut() -> None:
    payloads = [b"", b"a", bytes(300), b"bc"]
    stream = frame_messages(payloads)
    assert len(stream) == 4 * 4 + 303  # Four prefixes and the payloads.
    for cut in range(len(stream) + 1):
        parser = MessageParser()
        assert parser.feed(stream[:cut]) + parser.feed(stream[cut:]) == payloads


def test_a_payload_of_another_size_is_an_error() -> None:
    assert check_payloads([bytes(64)] * 3) == 3
    with pytest.raises(ValueError, match="has 63 bytes, not 64"):
        check_payloads([bytes(64), bytes(63)])


@pytest.mark.parametrize(
    "measurement",
    [
        Measurement("tcp", {"messages": MESSAGES}),
        Measurement("quic", {"messages": MESSAGES, "datagram_bytes": 1232}),
        Measurement("quic", {"messages": MESSAGES, "datagram_bytes": 16384}),
        Measurement("zmq", {"messages": MESSAGES}),
        Measurement("node", {"messages": MESSAGES, "peers": 2, "protocol": "hybrid"}),
        Measurement("node", {"messages": MESSAGES, "peers": 1, "in_batches": True}),
        Measurement(
            "node",
            {
                "messages": MESSAGES,
                "peers": 1,
                "in_batches": True,
                "encrypted": True,
                "datagram_bytes": 1232,
            },
        ),
        Measurement("node", {"round_trips": 10, "protocol": "bounded"}),
        Measurement("node", {"round_trips": 10, "callbacks": True}),
        Measurement("raw", {"round_trips": 10}),
    ],
    ids=str,
)
def test_a_transport_is_measured_in_processes_of_its_own(measurement: Measurement) -> None:
    cost = measurement.run(server_port=0)
    assert cost.seconds > 0
    assert cost.processor_s > 0


def test_a_ratio_says_whether_its_aim_is_met() -> None:
    costs = {"a": Cost(2e-6, 1e-6), "b": Cost(3e-6, 2e-6)}
    rates = Ratio("r", "a", "b", 1.5)  # 1/2 over 1/3 message per microsecond.
    assert rates.line(costs).endswith("1.50   2.00  (aim: at least 1.5, met)")
    assert Ratio("r", "a", "b", 1.6).line(costs).endswith("(aim: at least 1.6, MISSED)")
    at_most = Ratio("r", "b", "a", 1.4, at_least=False)
    assert at_most.line(costs).endswith("1.50   2.00  (aim: at most 1.4, MISSED)")
    assert Ratio("r", "a", "b", None).line(costs).endswith("1.50   2.00")
    assert Ratio("r", "a", "c", 1.0).line(costs) == ""


def test_every_ratio_is_of_two_measurements_of_the_run() -> None:
    names = set(make_measurements(PROTOCOLS, 1000, absent={}))
    for ratio in make_ratios(PROTOCOLS):
        assert {ratio.numerator, ratio.denominator} <= names, ratio


def test_every_row_of_the_aims_is_printed_for_both_protocols(
    capsys: pytest.CaptureFixture[str],
) -> None:
    names = make_measurements(PROTOCOLS, 1000, absent={})
    net.print_ratios(dict.fromkeys(names, Cost(1.0, 1.0)), make_ratios(PROTOCOLS))
    printed = capsys.readouterr().out
    for protocol in PROTOCOLS:
        lines = [line for line in printed.splitlines() if f"node, {protocol}" in line]
        for row, aim in (
            (": to raw UDP ", "at least 1.6"),
            ("batch calls: to raw UDP with GSO ", "at least 0.4"),
            (": to asyncio pyzmq ", "at least 15"),
            ("batch calls: to asyncio TCP ", "at least 0.5"),
            ("round trip: to raw UDP ", "at most 1.5"),
            ("round trip, callbacks: to raw UDP ", "at most 1.5"),
            ("interpreted: to raw UDP ", "at least 0.3"),
            ("1,232 B: to aioquic ", "at least 5"),
            ("16 KiB: to aioquic ", "at least 5"),
        ):
            assert any(row in line and aim in line for line in lines), (protocol, row)


def test_a_peer_that_is_not_installed_is_one_line_and_no_row(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name: None if name in ("aioquic", "nats", "zmq") else found(name),
    )
    assert net.main(["--messages", "640", "--rounds", "1", "--only", "16 KiB"]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[1:] == [
        "pyzmq: skipped: the package pyzmq is not installed",
        "nats-py: skipped: the package nats-py is not installed",
        "aioquic: skipped: the package aioquic is not installed",
    ]


def test_a_measurement_that_fails_is_named_and_the_others_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def make(
        protocols: tuple[str, ...], messages: int, absent: Mapping[str, str]
    ) -> dict[str, Measurement]:
        return {
            "raw UDP, round trip": Measurement("raw", {"round_trips": 10}),
            "broken": Measurement("no_such_transport", {"messages": 1}),
        }

    monkeypatch.setattr(net, "make_measurements", make)
    assert net.main(["--rounds", "2"]) == 1
    captured = capsys.readouterr()
    assert captured.err.count("broken: FAILED, skipped") == 1  # Not in the second round.
    assert "raw UDP, round trip" in captured.out


def test_a_worker_that_fails_raises_an_error_that_names_its_role() -> None:
    with pytest.raises(BenchmarkError, match="no_such_transport"):
        Measurement("no_such_transport", {"round_trips": 1}).run(0)
