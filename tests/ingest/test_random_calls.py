"""Spans of random service graphs: the verdicts agree with the true events."""

from pathlib import Path

from antecede.ingest import IngestedVerdict, ingest
from antecede.verify import MessageId, Property, verify_events
from antecede.verify.verifier import verify_trace
from tests.ingest.foreign_samples import write_sample
from tests.ingest.service_graph import Copy, ServiceGraph

Found = set[tuple[Property, str, Copy]]
"""A property, the process at which it is violated, and the copy that was too early."""


def verified(graph: ServiceGraph, path: Path) -> IngestedVerdict:
    file = write_sample(path / f"{graph.seed}.csv", graph.to_csv())
    (ingested,) = ingest([file], path / str(graph.seed))
    verdict = verify_trace(ingested.directory, violations_max=100_000)
    return IngestedVerdict(trace_verdict=verdict, ingested=ingested)


def true_violations(graph: ServiceGraph) -> Found:
    events, copies = graph.true_events()
    found = verify_events(events, complete=False).violations
    return {
        (
            each.property,
            f"p{each.process}",
            copies[each.message.source, each.message.number],
        )
        for each in found
    }


def reported_violations(graph: ServiceGraph, verdict: IngestedVerdict) -> Found:
    """Return the violations with copies that the lines of their sends identify."""
    names = verdict.ingested.written.table.names
    child = {span.parent: span.id for span in graph.spans if span.kind == "server"}

    def copy(message: MessageId) -> Copy:
        location = verdict.ingested.written.location_of_send(message)
        assert location is not None
        span = graph.spans[location.line - 2]  # Line 1 is the header.
        return ("reply", span.id) if span.kind == "server" else ("request", child[span.id])

    return {
        (each.property, names[each.process], copy(each.message))
        for each in verdict.trace_verdict.violations
    }


def test_without_timeouts_exactly_the_true_violations_are_reported(tmp_path: Path) -> None:
    total = 0
    for seed in range(10):
        graph = ServiceGraph(seed, has_timeouts=False)
        verdict = verified(graph, tmp_path)
        assert verdict.ingested.summary.missing == ()
        assert verdict.trace_verdict.deliveries == graph.copies
        assert reported_violations(graph, verdict) == true_violations(graph)
        total += len(verdict.trace_verdict.violations)
    assert total > 50


def test_with_timeouts_and_skew_every_reported_violation_is_true(tmp_path: Path) -> None:
    reported = late = repeated = 0
    for seed in range(30):
        graph = ServiceGraph(seed)
        verdict = verified(graph, tmp_path)
        found = reported_violations(graph, verdict)
        assert found <= true_violations(graph)
        # Each copy is verified, or counted as unknown.
        assert verdict.trace_verdict.delivery_counts(Property.CAUSAL).unknown == (
            graph.copies - verdict.trace_verdict.deliveries
        )
        reported, late = reported + len(found), late + graph.late
        repeated += graph.repeated
    assert reported > 100
    assert late > 30
    assert repeated > 5


def test_timeouts_that_durations_do_not_show_are_not_an_error(tmp_path: Path) -> None:
    """Cycles may show them; the other calls are verified in any case."""
    cycles = 0
    for seed in range(30):
        graph = ServiceGraph(seed, hides_timeouts=True)
        verdict = verified(graph, tmp_path)
        assert verdict.trace_verdict.deliveries > 0
        cycles += any("cycle" in str(each) for each in verdict.ingested.summary.missing)
    assert cycles
