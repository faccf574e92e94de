"""Hypothesis strategies for schedules; needs the extra ``antecede[testing]``."""

from hypothesis import strategies as st

from antecede.testing.schedule import Step, StepKind

__all__ = ["schedules"]


def schedules(
    processes: int,
    *,
    steps_max: int = 60,
    fan_out_max: int = 1,
    faults: bool = True,
) -> st.SearchStrategy[list[Step]]:
    """Draw schedules for a cluster, which shrink to short ones.

    Args:
        processes: The number of processes of the cluster.
        steps_max: The maximum number of steps.
        fan_out_max: The maximum number of targets of a message, the sender included.
        faults: Packets may be dropped and duplicated, processes may pause, and time may
            pass. Packets always arrive in any order.
    """
    picks = st.integers(0, 63)
    sends = st.builds(
        Step,
        st.just(StepKind.SEND),
        st.integers(0, processes - 1),
        st.lists(
            st.integers(0, processes - 1), min_size=1, max_size=fan_out_max, unique=True
        ).map(tuple),
    )
    arrivals = st.builds(Step, st.just(StepKind.ARRIVE), picks)
    choices = [sends, arrivals, arrivals]
    if faults:
        kinds = (StepKind.DROP, StepKind.DUPLICATE, StepKind.PAUSE, StepKind.RESUME)
        choices.append(st.builds(Step, st.sampled_from(kinds), picks))
        choices.append(
            st.builds(
                Step,
                st.just(StepKind.PASS_TIME),
                seconds=st.sampled_from((0.25, 1.0, 4.0)),
            )
        )
    return st.lists(st.one_of(choices), max_size=steps_max)
