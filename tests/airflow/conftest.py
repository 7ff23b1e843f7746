"""The one Airflow of the suite."""

from typing import Any

import pytest

from support.running_airflow import Running, the_airflow


@pytest.fixture
def running(
    broker: Any, request: pytest.FixtureRequest, session_places: Any, tmp_path_factory: pytest.TempPathFactory
) -> Running:
    return the_airflow(request.config, session_places, lambda: tmp_path_factory.mktemp("airflow"))
