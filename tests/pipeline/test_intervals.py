"""Student's t distribution: printed tables, closed forms, and invalid arguments."""

from math import inf, pi, sqrt, tan
from statistics import NormalDist

import pytest

from antecede.errors import LocalError
from antecede.pipeline.study.intervals import central_probability, student_t


@pytest.mark.parametrize(
    ("freedom", "t_95", "t_99"),
    [
        (1, 12.706, 63.657),
        (2, 4.303, 9.925),
        (3, 3.182, 5.841),
        (4, 2.776, 4.604),
        (5, 2.571, 4.032),
        (9, 2.262, 3.250),
        (10, 2.228, 3.169),
        (29, 2.045, 2.756),
        (30, 2.042, 2.750),
        (120, 1.980, 2.617),
    ],
)
def test_student_t_equals_printed_tables(freedom: int, t_95: float, t_99: float) -> None:
    assert student_t(freedom) == pytest.approx(t_95, abs=5.1e-4)
    assert student_t(freedom, 0.99) == pytest.approx(t_99, abs=5.1e-4)


@pytest.mark.parametrize("confidence", [0.01, 0.5, 0.9, 0.999])
def test_student_t_in_closed_form(confidence: float) -> None:
    assert student_t(1, confidence) == pytest.approx(tan(pi / 2 * confidence), rel=1e-9)
    two = confidence * sqrt(2 / (1 - confidence**2))
    assert student_t(2, confidence) == pytest.approx(two, rel=1e-9)
    normal = NormalDist().inv_cdf((1 + confidence) / 2)
    assert student_t(20_000, confidence) == pytest.approx(normal, rel=1e-3)
    for freedom in (1, 2, 3, 8, 33):
        t = student_t(freedom, confidence)
        assert central_probability(t, freedom) == pytest.approx(confidence, rel=1e-9)


def test_student_t_refuses_invalid_arguments() -> None:
    assert central_probability(0, 3) == 0
    assert central_probability(inf, 3) == central_probability(inf, 4) == pytest.approx(1)
    for freedom, confidence in ((0, 0.95), (-1, 0.95), (3, 0.0), (3, 1.0), (3, 95.0)):
        with pytest.raises(LocalError):
            student_t(freedom, confidence)
    with pytest.raises(LocalError):
        central_probability(1.0, 0)
    with pytest.raises(LocalError):
        central_probability(-1.0, 1)
