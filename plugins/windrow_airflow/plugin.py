"""Windrow's Airflow plugin: the timetable, task links, pages, what is imported before tasks, and one write at a time.

Every Airflow process imports it, so it imports no pyspark, Great Expectations or delta-rs.
"""

from airflow.configuration import conf
from airflow.plugins_manager import AirflowPlugin

from windrow_airflow import one_write, preload
from windrow_airflow.pages import web
from windrow_airflow.pages.report_link import ReportLink, TableLink
from windrow_airflow.window_timetable import WindowTimetable


class WindrowPlugin(AirflowPlugin):
    """The attributes that Airflow reads from a plugin."""

    name = "windrow"
    listeners = [preload]  # noqa: RUF012
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
            # no url_route: Airflow's frame lets no link and no form lead from a page to a run
        }
    ]
