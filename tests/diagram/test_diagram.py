"""Space-time diagrams of small runs, with positions worked out by hand."""

import re
from collections.abc import Iterator
from datetime import timedelta
from itertools import pairwise
from random import Random
from typing import Literal
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import pytest

from antecede.core import Ack, Frame, MessageFrame, Permit
from antecede.diagram.draw import ARROWS_MAX, PROCESSES_MAX, draw
from antecede.errors import AntecedeError, ConfigError, TraceError
from antecede.testing import Cluster, random_schedule, run_schedule
from antecede.trace import Event, Kind
from antecede.verify import MessageId, Property, Violation, verify_events

SVG = "{http://www.w3.org/2000/svg}"
Point = tuple[float, float]


class Picture:
    """A parsed drawing."""

    def __init__(self, svg: str) -> None:
        self.svg = svg
        self.root = ElementTree.fromstring(svg)
        self.lines = {
            int(group.attrib["data-process"]): number(only(group, "line"), "y1")
            for group in self.groups("process")
        }

    def groups(self, name: str) -> list[Element]:
        return [g for g in self.root.iter(f"{SVG}g") if has(g, name)]

    def parts(
        self, name: str, message: str = "", target: int | None = None
    ) -> list[Element]:
        """Return the elements with a class, of all copies or of one."""
        return [
            part
            for group in self.groups("message")
            if message in ("", group.attrib["data-message"])
            and target in (None, int(group.attrib["data-target"]))
            for part in group
            if has(part, name)
        ]

    def arrow(self, message: str, target: int) -> tuple[Point, Point]:
        """Return the ends of the only arrow of a copy."""
        (line,) = self.parts("arrow", message, target)
        return ends(line)

    def bars(self, where: str, message: str) -> list[tuple[float, float]]:
        """Return the bars of a message at its "source" or "target", as start and end."""
        return [
            (number(bar, "x"), number(bar, "x") + number(bar, "width"))
            for bar in self.parts(where, message)
        ]

    def dots(self, process: int) -> list[tuple[float, str]]:
        """Return the deliveries on a line, from left to right."""
        return sorted(
            (number(dot, "cx"), group.attrib["data-message"])
            for group in self.groups("message")
            for dot in group
            if has(dot, "dot") and number(dot, "cy") == self.lines[process]
        )

    def labels(self, name: str = "label") -> list[str]:
        return [t.text or "" for t in self.root.iter(f"{SVG}text") if has(t, name)]

    def messages(self) -> set[str]:
        return {group.attrib["data-message"] for group in self.groups("message")}

    def title(self, message: str, target: int) -> str:
        for group in self.groups("message"):
            found = (group.attrib["data-message"], int(group.attrib["data-target"]))
            if found == (message, target):
                return only(group, "title").text or ""
        raise AssertionError(f"no copy of {message} to {target}")


def has(element: Element, name: str) -> bool:
    return name in element.get("class", "").split()


def only(element: Element, tag: str) -> Element:
    (found,) = element.findall(f"{SVG}{tag}")
    return found


def number(element: Element, name: str) -> float:
    return float(element.attrib[name])


def ends(line: Element) -> tuple[Point, Point]:
    x1, y1, x2, y2 = (number(line, name) for name in ("x1", "y1", "x2", "y2"))
    return (x1, y1), (x2, y2)


def event(
    kind: Kind,
    process: int,
    message: str = "",
    *,
    ms: float = 0.0,
    target: int | None = None,
    targets: tuple[int, ...] | None = None,
) -> Event:
    source, _, count = message.partition(":")
    return Event(
        process=process,
        kind=kind,
        time=ms / 1e3,
        source=int(source) if message else None,
        number=int(count) if message else None,
        target=target,
        targets=targets,
    )


def message_events(
    message: str, target: int, send: float, release: float, arrive: float, deliver: float
) -> Iterator[Event]:
    """Yield the events of a message at the given times in ms; see :func:`by_time`."""
    source = int(message.partition(":")[0])
    yield event(Kind.SEND, source, message, ms=send, targets=(target,))
    yield event(Kind.RELEASE, source, message, ms=release, target=target)
    yield event(Kind.ARRIVE, target, message, ms=arrive, target=target)
    yield event(Kind.DELIVER, target, message, ms=deliver, target=target)


def by_time(*messages: Iterator[Event]) -> list[Event]:
    return sorted((e for events in messages for e in events), key=lambda e: e.time)


def arrive(cluster: Cluster, kind: type[Frame], source: int, target: int) -> None:
    """Let the newest frame of that kind between the two processes arrive."""
    for index, packet in reversed(list(enumerate(cluster.in_flight))):
        if (packet.source, packet.target) == (source, target) and isinstance(
            packet.frame, kind
        ):
            cluster.arrive(index)
            return
    raise AssertionError(f"no {kind.__name__} from {source} to {target} in flight")


def overtaking() -> list[Event]:
    """1:1, which depends on 0:1 through 0:2, overtakes 0:1 at 2; 3:1 is unrelated."""
    return by_time(
        message_events("0:1", 2, 0, 0, 20, 20),
        message_events("0:2", 1, 2, 2, 6, 6),
        message_events("1:1", 2, 8, 8, 12, 12),
        message_events("3:1", 1, 3, 3, 14, 14),
    )


def test_an_arrow_joins_the_release_and_the_arrival_on_their_lines() -> None:
    cluster = Cluster("hybrid", 3)
    cluster.send(0, [2])
    cluster.arrive()
    picture = Picture(draw(cluster.history))
    (x1, y1), (x2, y2) = picture.arrow("0:1", 2)
    assert (y1, y2) == (picture.lines[0], picture.lines[2])
    assert x1 < x2
    assert picture.dots(2) == [(x2, "0:1")]
    assert list(picture.lines) == [0, 2]  # nothing ever happened at process 1
    assert not picture.parts("wait")
    assert picture.labels() == ["0:1"]


def test_lines_are_from_top_to_bottom_in_the_order_of_processes() -> None:
    picture = Picture(draw(overtaking()))
    assert list(picture.lines) == [0, 1, 2, 3]
    assert list(picture.lines.values()) == sorted(picture.lines.values())
    assert picture.labels("name") == [f"process {i}" for i in range(4)]


def test_the_length_of_a_bar_is_the_duration_of_the_wait() -> None:
    events = by_time(
        message_events("0:1", 1, 0, 2, 5, 9), message_events("1:1", 0, 0, 0, 10, 10)
    )
    picture = Picture(draw(events, axis="time"))
    (left, _), (right, _) = picture.arrow("1:1", 0)  # from 0 to 10 ms
    unit = (right - left) / 10
    assert picture.bars("source", "0:1") == [pytest.approx((left, left + 2 * unit))]
    bar = [pytest.approx((left + 5 * unit, left + 9 * unit), abs=0.02)]
    assert picture.bars("target", "0:1") == bar
    (start, _), (end, _) = picture.arrow("0:1", 1)
    assert (start, end) == pytest.approx((left + 2 * unit, left + 5 * unit))
    assert [dot for dot, _ in picture.dots(1)] == pytest.approx([left + 9 * unit])
    assert not picture.parts("wait", "1:1")
    (above,), (below,) = picture.parts("source"), picture.parts("target")
    assert number(above, "y") + number(above, "height") < picture.lines[0]
    assert number(below, "y") > picture.lines[1]


def test_a_message_held_at_both_ends_shows_both_waits() -> None:
    """Columns: 1:1, 1:2, 1:2 arrives, 0:1, 0:2, 1:1 arrives, both leave, both arrive."""
    cluster = Cluster("hybrid", 3)
    cluster.send(1, [2])
    cluster.send(1, [0])
    arrive(cluster, MessageFrame, 1, 0)
    cluster.send(0, [2])
    cluster.send(0, [2])
    arrive(cluster, MessageFrame, 1, 2)
    arrive(cluster, Ack, 2, 1)
    arrive(cluster, Permit, 1, 0)
    arrive(cluster, MessageFrame, 0, 2)  # 0:2, before its predecessor
    assert cluster.delivered(2) == [(1, 1)]
    arrive(cluster, MessageFrame, 0, 2)
    picture = Picture(draw(cluster.history))
    (first, _), _ = picture.arrow("1:1", 2)
    (second, _), _ = picture.arrow("1:2", 0)

    def column(index: int) -> float:
        return pytest.approx(first + index * (second - first), abs=0.05)  # type: ignore[return-value]

    assert picture.bars("source", "0:1") == [(column(3), column(6))]
    assert picture.bars("source", "0:2") == [(column(4), column(6))]
    assert picture.bars("target", "0:2") == [(column(7), column(9))]
    assert picture.bars("target", "0:1") == []
    assert picture.dots(2) == [(column(5), "1:1"), (column(8), "0:1"), (column(9), "0:2")]


def test_waits_at_the_same_time_lie_side_by_side() -> None:
    events = by_time(
        *(message_events(f"0:{i + 1}", 1, i, 20, 30, 30 + i) for i in range(12))
    )
    bars = Picture(draw(events)).parts("source")
    spans = sorted((number(b, "y"), number(b, "y") + number(b, "height")) for b in bars)
    assert len(spans) == 12
    assert all(one[1] < other[0] for one, other in pairwise(spans))


def test_copies_that_leave_together_wait_together() -> None:
    events = [
        event(Kind.SEND, 0, "0:1", targets=(1, 2, 3)),
        event(Kind.RELEASE, 0, "0:1", ms=4, target=1),
        event(Kind.RELEASE, 0, "0:1", ms=4, target=3),
        event(Kind.RELEASE, 0, "0:1", ms=8, target=2),
    ]
    picture = Picture(draw(events, axis="time"))
    starts = {start for start, _ in picture.bars("source", "0:1")}
    assert len(starts) == 1
    assert len(picture.bars("source", "0:1")) == 2


def test_events_of_one_step_do_not_wait() -> None:
    """Two deliveries of one step have their own columns; the second did not wait."""
    events = [
        event(Kind.SEND, 0, "0:1", targets=(1,)),
        event(Kind.SEND, 0, "0:2", targets=(1,)),
        event(Kind.ARRIVE, 1, "0:2", target=1),
        event(Kind.DELIVER, 1, "0:1", target=1),
        event(Kind.DELIVER, 1, "0:2", target=1),
    ]
    picture = Picture(draw(events))
    assert [message for _, message in picture.dots(1)] == ["0:1", "0:2"]
    assert not picture.parts("target")


def test_a_lost_frame_is_a_stub_with_a_cross_and_its_retransmission_is_dashed() -> None:
    cluster = Cluster("hybrid", 2)
    cluster.send(0, [1])
    cluster.drop()
    cluster.pass_time(10)
    cluster.arrive()
    picture = Picture(draw(cluster.history))
    (stub,) = picture.parts("lost")
    (retransmission,) = picture.parts("retransmission")
    (tick,) = picture.parts("tick")
    (x1, y1), (x2, y2) = ends(stub)
    assert (x1, y1) == (number(tick, "x1"), picture.lines[0])
    assert picture.lines[0] < y2 < picture.lines[1]
    assert len(picture.parts("cross")) == 1
    assert f"M{x2 - 4:g} {y2 - 4:g}" in picture.parts("cross")[0].attrib["d"]
    (start, top), (end, bottom) = ends(retransmission)
    assert x1 < start
    assert (top, bottom) == (picture.lines[0], picture.lines[1])
    assert picture.dots(1) == [(end, "0:1")]
    assert picture.labels() == ["0:1", "0:1"]  # one at the stub
    assert "transmitted 2 times, 1 lost" in picture.title("0:1", 1)
    assert picture.labels("note")[-2:] == ["retransmission", "lost"]


def test_a_loss_is_matched_to_the_latest_transmission() -> None:
    """The release is slow and its retransmission is lost: the release arrives."""
    events = [
        event(Kind.SEND, 0, "0:1", targets=(1,)),
        event(Kind.RELEASE, 0, "0:1", target=1),
        event(Kind.TRANSMIT, 0, "0:1", ms=3, target=1),
        event(Kind.DROP, 0, "0:1", ms=3, target=1),
        event(Kind.ARRIVE, 1, "0:1", ms=6, target=1),
    ]
    picture = Picture(draw(events))
    slow, lost = picture.parts("arrow")
    assert not has(slow, "retransmission")
    assert not has(slow, "lost")
    assert ends(slow)[1][1] == picture.lines[1]
    assert has(lost, "retransmission")
    assert has(lost, "lost")


def test_a_duplicated_frame_has_two_arrows_from_one_point() -> None:
    cluster = Cluster("hybrid", 2)
    cluster.send(0, [1])
    cluster.duplicate()
    cluster.arrive()
    arrive(cluster, MessageFrame, 0, 1)
    picture = Picture(draw(cluster.history))
    one, other = (ends(line) for line in picture.parts("arrow", "0:1", 1))
    assert one[0] == other[0]
    assert one[1] < other[1]
    assert len(picture.parts("retransmission")) == 1
    assert len(picture.dots(1)) == 1


def test_a_frame_in_flight_and_an_open_wait_have_no_end() -> None:
    events = [
        event(Kind.SEND, 0, "0:1", targets=(1,)),
        event(Kind.RELEASE, 0, "0:1", target=1),
        event(Kind.SEND, 0, "0:2", targets=(1,)),
        event(Kind.SEND, 1, "1:1", targets=(1,)),
        event(Kind.DELIVER, 1, "1:1", target=1),
        event(Kind.SEND, 2, "2:1", targets=(1,)),
        event(Kind.RELEASE, 2, "2:1", target=1),
        event(Kind.ARRIVE, 1, "2:1", target=1),
    ]
    picture = Picture(draw(events))
    (in_flight,) = picture.parts("in-flight")
    assert ends(in_flight)[1][1] < picture.lines[1]
    assert [len(picture.parts("open", m)) for m in ("0:1", "0:2", "2:1")] == [0, 1, 1]
    assert not picture.parts("arrow", "1:1")  # to itself: a dot
    assert [message for _, message in picture.dots(1)] == ["1:1"]
    assert sorted(picture.labels()) == ["0:1", "0:2", "1:1", "2:1"]


def test_a_trace_of_sends_and_deliveries_alone_has_arrows_between_them() -> None:
    events = [
        event(Kind.SEND, 0, "0:1", targets=(1, 2)),
        event(Kind.DELIVER, 1, "0:1", target=1),
    ]
    picture = Picture(draw(events))
    (start, top), (end, bottom) = picture.arrow("0:1", 1)
    assert (top, bottom) == (picture.lines[0], picture.lines[1])
    assert [dot for dot, _ in picture.dots(1)] == [end]
    assert [number(tick, "x1") for tick in picture.parts("tick")] == [start]
    assert not picture.parts("wait")


def test_a_relayed_message_goes_from_the_relay() -> None:
    events = [
        event(Kind.SEND, 0, "0:1"),
        event(Kind.RELEASE, 0, "0:1", target=1),
        event(Kind.ARRIVE, 1, "0:1", target=1),
        event(Kind.DELIVER, 1, "0:1", target=1),
        event(Kind.TRANSMIT, 1, "0:1", target=2),
        event(Kind.ARRIVE, 2, "0:1", target=2),
        event(Kind.DELIVER, 2, "0:1", target=2),
    ]
    picture = Picture(draw(events))
    (_, top), (_, bottom) = picture.arrow("0:1", 2)
    assert (top, bottom) == (picture.lines[1], picture.lines[2])
    assert not picture.parts("retransmission")
    assert not picture.parts("wait")


def test_control_frames_are_drawn_on_demand() -> None:
    cluster = Cluster("hybrid", 2)
    cluster.send(0, [1])
    cluster.arrive()
    cluster.drop()  # the ack
    assert not Picture(draw(cluster.history)).groups("control")
    cluster.send(1, [0])
    arrive(cluster, MessageFrame, 1, 0)  # which is acked in turn
    picture = Picture(draw(cluster.history, control=True))
    controls = [g for g in picture.groups("control") if g.find(f"{SVG}title") is not None]
    lost, sound = ([p for p in group if has(p, "arrow")] for group in controls[:2])
    assert has(lost[0], "lost")
    assert (ends(sound[0])[0][1], ends(sound[0])[1][1]) == (
        picture.lines[0],
        picture.lines[1],
    )


def test_a_violation_is_red_from_cause_to_effect_with_a_caption() -> None:
    events = overtaking()
    violations = verify_events(events).violations
    picture = Picture(draw(events, violations=violations))
    red = {
        (group.attrib["data-message"], group.attrib["data-target"])
        for group in picture.groups("violation")
    }
    assert red == {("0:1", "2"), ("0:2", "1"), ("1:1", "2")}
    assert all(has(g, "dim") for g in picture.groups("message") if not has(g, "violation"))
    assert picture.labels("violation") == ["0:1", "0:2", "1:1"]
    ((at_0, _), (to_2, _)) = picture.arrow("0:1", 2)
    ((next_at_0, _), (to_1, _)) = picture.arrow("0:2", 1)
    ((at_1, _), (first_to_2, _)) = picture.arrow("1:1", 2)
    chain = [ends(e) for e in picture.root.iter(f"{SVG}line") if has(e, "chain")]
    lines = picture.lines
    assert chain == [
        ((at_0, lines[0]), (next_at_0, lines[0])),
        ((to_1, lines[1]), (at_1, lines[1])),
        ((first_to_2, lines[2]), (to_2, lines[2])),
    ]
    assert " ".join(picture.labels("caption")) == str(violations[0])
    assert str(violations[0]).replace(">", "&gt;") in picture.svg.partition("<style>")[0]


def test_violations_without_a_chain_are_marked_too() -> None:
    events = [
        event(Kind.SEND, 0, "0:1", targets=(1, 2)),
        event(Kind.DELIVER, 1, "0:1", target=1),
        event(Kind.DELIVER, 1, "0:1", target=1),
        event(Kind.DELIVER, 1, "5:9", target=1),
    ]
    verdict = verify_events(events)
    assert verdict.violated() == {
        Property.NO_DUPLICATION,
        Property.NO_CREATION,
        Property.LIVENESS,
    }
    picture = Picture(draw(events, violations=verdict.violations))
    assert [message for _, message in picture.dots(1)] == ["0:1", "0:1", "5:9"]
    assert len({x for x, _ in picture.dots(1)}) == 3
    captions = " ".join(str(violation) for violation in verdict.violations)
    assert " ".join(picture.labels("caption")) == captions
    assert not picture.groups("dim")


def test_a_violation_marks_the_messages_of_its_chain_that_are_drawn() -> None:
    """A chain may contain messages that are not in the drawn part of a trace."""
    early, late = MessageId(1, 1), MessageId(0, 1)
    absent = (MessageId(7, 1), MessageId(7, 2))
    violation = Violation(
        property=Property.CAUSAL, process=2, message=early, chain=(late, *absent, early)
    )
    picture = Picture(draw(overtaking(), violations=[violation], around=early, before=0))
    red = {group.attrib["data-message"] for group in picture.groups("violation")}
    assert red == {"0:1", "1:1"}
    chain = [e for e in picture.root.iter(f"{SVG}line") if has(e, "chain")]
    assert [has(line, "broken") for line in chain] == [True]


def test_captions_list_only_a_few_violations() -> None:
    missing = [
        Violation(property=Property.LIVENESS, process=1, message=MessageId(0, 1))
    ] * 9
    events = [event(Kind.SEND, 0, "0:1", targets=(1,))]
    captions = Picture(draw(events, violations=missing)).labels("caption")
    assert len(captions) == 7
    assert captions[-1] == "and 3 more violations"


def test_around_draws_the_messages_near_one_message() -> None:
    """0:1 to 0:9 go from 0 to 1, one after the other; 2:1 goes to 3 meanwhile."""
    messages = [
        message_events(f"0:{i}", 1, *(10 * i + ms for ms in (0, 1, 5, 6)))
        for i in range(1, 10)
    ]
    events = by_time(*messages, message_events("2:1", 3, 50, 50, 52, 52))
    middle = MessageId(0, 5)
    picture = Picture(draw(events, around=middle, before=2, after=2))
    assert picture.messages() == {"0:4", "0:5", "0:6"}
    assert list(picture.lines) == [0, 1]
    assert {g.attrib["data-message"] for g in picture.groups("around")} == {"0:5"}
    assert {g.attrib["data-message"] for g in picture.groups("dim")} == {"0:4", "0:6"}
    alone = Picture(draw(events, around=middle, before=0, after=0))
    assert alone.messages() == {"0:5"}
    near = timedelta(milliseconds=16)
    in_time = Picture(draw(events, around=middle, before=near, after=timedelta(0)))
    assert in_time.messages() == {"0:4", "0:5"}
    before, after = timedelta(milliseconds=8), timedelta(milliseconds=9.5)
    in_time = Picture(draw(events, around=middle, before=before, after=after))
    assert in_time.messages() == {"0:5", "0:6"}
    assert "around message 0:5" in picture.root.attrib["aria-label"]


def test_around_keeps_the_evidence_of_its_violations_only() -> None:
    events = overtaking()
    violations = verify_events(events).violations
    options = {"violations": violations, "before": 0, "after": 0}
    picture = Picture(draw(events, around=MessageId(0, 2), **options))  # type: ignore[arg-type]
    assert picture.messages() == {"0:1", "0:2", "1:1"}
    assert len(picture.groups("violation")) > 0
    other = Picture(draw(events, around=MessageId(3, 1), **options))  # type: ignore[arg-type]
    assert other.messages() == {"3:1"}
    assert not other.labels("caption")


def test_around_shows_control_frames_to_and_from_the_message() -> None:
    cluster = Cluster("hybrid", 4)
    cluster.send(0, [1])
    cluster.arrive()
    cluster.send(2, [3])
    arrive(cluster, MessageFrame, 2, 3)
    svg = draw(cluster.history, around=MessageId(0, 1), control=True)
    (control, _) = Picture(svg).groups("control")  # and the one in the legend
    assert only(control, "title").text == "control frame 1 to 0, transmitted"


@pytest.mark.parametrize(
    ("times", "axis"),
    [
        ((0, 0, 0, 0), "order"),
        ((0, 3, 6, 10), "time"),
        ((0, 0.1, 0.2, 100), "order"),  # crowded
    ],
)
def test_the_axis_is_time_unless_events_are_crowded(
    times: tuple[float, float, float, float], axis: Literal["time", "order"]
) -> None:
    events = list(message_events("0:1", 1, *times))
    assert draw(events) == draw(events, axis=axis)
    other: Literal["time", "order"] = "order" if axis == "time" else "time"
    assert draw(events) != draw(events, axis=other)


def test_ticks_of_the_time_axis_are_at_their_times() -> None:
    events = list(message_events("0:1", 1, 3, 7, 11, 43))
    picture = Picture(draw(events, axis="time"))
    (left, _), _ = picture.arrow("0:1", 1)  # 7 ms
    ((right, _),) = picture.dots(1)  # 43 ms
    ticks = [
        (float(text.text or ""), number(text, "x"))
        for text in picture.root.iter(f"{SVG}text")
        if has(text, "time")
    ]
    assert len(ticks) > 2
    for time_ms, x in ticks:
        assert 3 <= time_ms <= 43
        assert x == pytest.approx(left + (time_ms - 7) / 36 * (right - left), abs=0.05)


def test_titles_show_the_times_in_ms() -> None:
    picture = Picture(
        draw(list(message_events("0:1", 1, 0.5, 2, 5, 9)), names={1: "database"})
    )
    assert picture.title("0:1", 1).splitlines() == [
        "0:1 to database",
        "send 0.500 ms",
        "release 2.000 ms (after 1.500 ms at the sender)",
        "arrive 5.000 ms (after 3.000 ms on the way)",
        "deliver 9.000 ms (after 4.000 ms at the receiver)",
    ]


def test_wall_clock_times_are_relative_to_the_first_event() -> None:
    epoch = 1_700_000_000_000.0
    events = list(message_events("0:1", 1, epoch, epoch, epoch + 4, epoch + 10))
    picture = Picture(draw(events))
    assert "deliver 10.000 ms" in picture.title("0:1", 1)
    assert picture.labels("time")[0] == "0"
    assert "0 ms: the first event shown" in picture.labels("note")


def test_names_are_escaped_and_shortened() -> None:
    evil = 'a<b>&"c"\x00\ud800'
    long = "a name that is much too long for the margin"
    events = list(message_events("0:1", 1, 0, 0, 1, 1))
    picture = Picture(draw(events, names={0: evil, 1: long}))
    assert picture.labels("name") == ['a<b>&"c"\ufffd\ufffd', "a name that is much too…"]
    titles = [only(group, "title").text for group in picture.groups("process")]
    assert titles == ['process 0: a<b>&"c"\ufffd\ufffd', f"process 1: {long}"]
    picture.svg.encode()


def test_the_svg_is_self_contained() -> None:
    svg = draw(overtaking())
    root = Picture(svg).root
    assert root.attrib["role"] == "img"
    assert root.attrib["aria-label"] == "Space-time diagram of 4 processes, 4 messages"
    assert "href" not in svg
    assert "url(" not in svg
    style = only(root, "style").text or ""
    light, dark = style.split("@media (prefers-color-scheme:dark){\n")
    for rule in (light + dark.rstrip("}\n")).strip().splitlines():
        for selector in rule.partition("{")[0].split(","):
            assert selector.startswith(".antecede-diagram "), rule
    colours = re.findall(r"^(.*)\{(?:fill|stroke):#", dark, re.MULTILINE)
    assert colours == re.findall(r"^(.*)\{(?:fill|stroke):#", light, re.MULTILINE)


@pytest.mark.parametrize("axis", ["time", "order"])
@pytest.mark.parametrize("seed", range(8))
def test_all_events_of_a_lossy_run_are_drawn_at_their_positions(
    seed: int, axis: Literal["time", "order"]
) -> None:
    random = Random(seed)
    cluster = Cluster("hybrid", 4)
    schedule = random_schedule(
        random,
        processes=4,
        steps=60,
        fan_out_max=2,
        loss=0.2,
        duplicate=0.1,
        seconds=(0.01, 0.3),
    )
    run_schedule(cluster, schedule)
    events = cluster.history
    svg = draw(events, axis=axis, control=True)
    assert svg == draw(list(events), axis=axis, control=True), f"seed {seed}"
    picture = Picture(svg)
    for process, y in picture.lines.items():
        order = [message for _, message in picture.dots(process)]
        assert order == [f"{s}:{n}" for s, n in cluster.delivered(process)], f"at {y}"
    arrows = picture.parts("arrow")
    arrived = [a for a in arrows if not has(a, "lost") and not has(a, "in-flight")]
    arrivals = [e for e in events if e.kind is Kind.ARRIVE]
    assert len(arrived) == len(arrivals)
    on_lines = set(picture.lines.values())
    assert all({y for _, y in ends(arrow)} <= on_lines for arrow in arrived)
    assert all(ends(a)[0][0] <= ends(a)[1][0] for a in arrows)
    drops = [e for e in events if e.kind is Kind.DROP and e.number is not None]
    assert len(picture.parts("lost")) <= len(drops)  # a duplicated frame may be lost twice
    width, height = (number(picture.root, name) for name in ("width", "height"))
    legend = {part for group in picture.groups("legend") for part in group.iter()}
    for element in picture.root.iter():
        for names, most in ((("x", "x1", "x2", "cx"), width), (("y", "y1", "cy"), height)):
            for name in names:
                if name in element.attrib and element not in legend:
                    assert 0 <= number(element, name) <= most, element.attrib


def test_labels_of_figure_2_do_not_overlap() -> None:
    i, j, k, x, y, z = range(6)
    cluster = Cluster("hybrid", 6)
    cluster.send(k, [y])
    cluster.send(k, [i])
    cluster.send(j, [x])
    cluster.send(j, [i])
    arrive(cluster, MessageFrame, k, i)
    arrive(cluster, MessageFrame, j, i)
    cluster.send(i, [z])
    arrive(cluster, MessageFrame, k, y)
    arrive(cluster, Ack, y, k)
    arrive(cluster, Permit, k, i)
    cluster.send(k, [z])
    cluster.send(k, [i])
    cluster.run_until_idle()
    picture = Picture(draw(cluster.history, names=dict(enumerate("ijkxyz"))))
    ((start, end),) = picture.bars("source", "0:1")
    assert [m for x, m in picture.dots(i) if x < start] == ["2:2", "1:2"]
    assert [m for _, m in picture.dots(z)] == ["2:3", "0:1"]
    positions = [
        (number(text, "x"), number(text, "y"))
        for text in picture.root.iter(f"{SVG}text")
        if has(text, "label")
    ]
    assert len(positions) == 7
    for index, (left, top) in enumerate(positions):
        for x2, y2 in positions[index + 1 :]:
            assert abs(left - x2) >= 18 or abs(top - y2) >= 10
    assert end > start


def test_a_run_that_is_too_large_is_refused_with_a_fix() -> None:
    messages = [
        message_events(f"0:{i}", 1, i, i, i + 1, i + 1) for i in range(1, ARROWS_MAX + 20)
    ]
    events = by_time(*messages)
    with pytest.raises(ConfigError, match=r"pass around=MessageId"):
        draw(events)
    assert draw(events, around=MessageId(0, 9))
    with pytest.raises(ConfigError, match="smaller values of before and after"):
        draw(events, around=MessageId(0, 9), after=10_000)
    many = tuple(range(1, PROCESSES_MAX + 1))
    with pytest.raises(ConfigError, match=f"{PROCESSES_MAX + 1} processes"):
        draw([event(Kind.SEND, 0, "0:1", targets=many)])


@pytest.mark.parametrize(
    ("events", "options", "error", "match"),
    [
        ([], {}, ConfigError, "no message"),
        ([event(Kind.CONTROL, 0, target=1)], {}, ConfigError, "no message"),
        ([event(Kind.DELIVER, 0)], {}, TraceError, "needs a source and a number"),
        ([event(Kind.RELEASE, 0, "0:1")], {}, TraceError, "needs a target"),
        (overtaking(), {"around": MessageId(9, 9)}, ConfigError, "9:9 is not in this run"),
        (overtaking(), {"before": -1}, ConfigError, "must be at least 0"),
        (overtaking(), {"after": timedelta(seconds=-1)}, ConfigError, "must be at least 0"),
        (overtaking(), {"axis": "space"}, ConfigError, "axis must be"),
    ],
)
def test_invalid_arguments_are_refused(
    events: list[Event],
    options: dict[str, object],
    error: type[AntecedeError],
    match: str,
) -> None:
    with pytest.raises(error, match=match):
        draw(events, **options)  # type: ignore[arg-type]
