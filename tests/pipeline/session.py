"""One Spark session for all tests of the pipeline; it takes seconds to start."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from antecede.pipeline.spark.session import open_session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    with open_session(cores=2, brief=True) as session:
        yield session
