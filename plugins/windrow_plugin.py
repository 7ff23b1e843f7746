"""What Airflow's own processes must know of Windrow: the timetable and the links.

Imported into every Airflow process, so it stays light: no pyspark, no Great Expectations, no delta-rs.
"""

from airflow.plugins_manager import AirflowPlugin

from windrow_airflow.report_link import ReportLink
from windrow_airflow.window_timetable import WindowTimetable


class WindrowPlugin(AirflowPlugin):
    name = "windrow"
    timetables = [WindowTimetable]  # noqa: RUF012 - the names and types are Airflow's
    operator_extra_links = [ReportLink()]  # noqa: RUF012
