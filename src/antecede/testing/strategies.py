"""Hypothesis strategies for schedules; needs the extra ``antecede[testing]``."""

from hypothesis import strategies as st

from antecede.testing.schedule import Act, Step

__all__ = ["schedules"]


def schedules(
    processes: int,
    *,
    steps_max: int = 60,
    fan_out_max: int = 1,
    faults: bool = True,
) -> st.SearchStrategy[list[Step]]:
    """Draw schedules for a cluster of ``processes``, which shrink to short ones.

    Args:
        processes: How many processes the cluster has.
        steps_max: The longest schedule.
        fan_out_max: The most targets of a message, the sender itself included.
        faults: Packets may be lost and duplicated, processes may pause, time may pass;
            they always arrive in any order.
    """
    picks = st.integers(0, 63)
    sends = st.builds(
        Step,
        st.just(Act.SEND),
        st.integers(0, processes - 1),
        st.lists(
            st.integers(0, processes - 1), min_size=1, max_size=fan_out_max, unique=True
        ).map(tuple),
    )
    arrivals = st.builds(Step, st.just(Act.ARRIVE), picks)
    choices = [sends, arrivals, arrivals]
    if faults:
        broken = st.sampled_from((Act.LOSE, Act.DUPLICATE, Act.PAUSE, Act.RESUME))
        choices.append(st.builds(Step, broken, picks))
        choices.append(
            st.builds(
                Step, st.just(Act.PASS_TIME), seconds=st.sampled_from((0.25, 1.0, 4.0))
            )
        )
    return st.lists(st.one_of(choices), max_size=steps_max)
