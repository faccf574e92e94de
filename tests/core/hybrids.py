"""The two protocols of hybrid buffering, as a parameter of tests."""

from collections.abc import Callable

import pytest

from antecede.core.protocols.hybrid.basic import make_hybrid_basic
from antecede.core.protocols.hybrid.hybrid import make_hybrid
from antecede.core.protocols.hybrid.process import HybridProcess

__all__ = ["HYBRIDS", "MakeHybrid", "both_hybrids"]

MakeHybrid = Callable[..., HybridProcess]
HYBRIDS = (make_hybrid, make_hybrid_basic)
both_hybrids = pytest.mark.parametrize("make", HYBRIDS)
