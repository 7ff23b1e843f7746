"""What Airflow's own processes must know of Windrow: the timetable, the links, the pages, and how writes take turns.

Imported into every Airflow process, so it stays light: no pyspark, no Great Expectations, no delta-rs.
"""

from airflow.configuration import conf
from airflow.plugins_manager import AirflowPlugin

from windrow_airflow import one_write, web
from windrow_airflow.report_link import ReportLink, TableLink
from windrow_airflow.window_timetable import WindowTimetable


class WindrowPlugin(AirflowPlugin):
    name = "windrow"
    timetables = [WindowTimetable]  # noqa: RUF012 - the names and types are Airflow's
    operator_extra_links = [ReportLink(), TableLink()]  # noqa: RUF012
    fastapi_apps = [{"app": web.app, "url_prefix": web.PREFIX, "name": "Windrow"}]  # noqa: RUF012
    fastapi_root_middlewares = one_write.middlewares(conf.get("database", "sql_alchemy_conn"))
    external_views = [  # noqa: RUF012
        {
            "name": "Windrow",
            "href": f"{web.PREFIX}/",
            "destination": "nav",
            "category": "browse",
            "url_route": "windrow",
        }
    ]
