"""One Spark session for all tests, because it takes seconds to start."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> "Iterator[SparkSession]":
    from antecede.pipeline.spark.session import open_session

    with open_session(cores=2, fast_start=True) as session:
        yield session
