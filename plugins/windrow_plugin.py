"""What Airflow's own processes must know of Windrow: the timetable, the links and the pages.

Imported into every Airflow process, so it stays light: no pyspark, no Great Expectations, no delta-rs.
"""

from airflow.plugins_manager import AirflowPlugin

from windrow_airflow import web
from windrow_airflow.report_link import ReportLink, TableLink
from windrow_airflow.window_timetable import WindowTimetable


class WindrowPlugin(AirflowPlugin):
    name = "windrow"
    timetables = [WindowTimetable]  # noqa: RUF012 - the names and types are Airflow's
    operator_extra_links = [ReportLink(), TableLink()]  # noqa: RUF012
    fastapi_apps = [{"app": web.app, "url_prefix": web.PREFIX, "name": "Windrow"}]  # noqa: RUF012
    external_views = [  # noqa: RUF012
        {
            "name": "Windrow",
            "href": f"{web.PREFIX}/",
            "destination": "nav",
            "category": "browse",
            "url_route": "windrow",
        }
    ]
