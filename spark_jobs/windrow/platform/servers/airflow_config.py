"""Airflow's configuration, keys and passwords in its folder.

<folder>/airflow.cfg       written at every start; holds the keys, so only the owner may read it
<folder>/secrets.json      keys, generated once
<folder>/passwords.json    generated passwords of the users
"""

from __future__ import annotations

import configparser
import json
import os
import secrets
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from windrow.platform.processes import Address

DATABASE = "airflow.db"
PASSWORDS = "passwords.json"


def write(
    project: Path,
    folder: Path,
    address: Address,
    tasks: Address,
    users: Mapping[str, str],
    dags: Path | None,
    umask: int,
    database: Mapping[str, str] | None = None,
) -> None:
    """Write airflow.cfg, and the first time keys and passwords.

    Args:
        address: where people find the API server.
        tasks: where tasks find the execution API.
        users: role by user name.
        dags: a further folder of DAG files.
        umask: file mode mask of the logs of tasks, whose modes Airflow sets itself.
        database: the section `database`; None for SQLite in the folder.
    """
    keys = _once(folder / "secrets.json", _new_keys)
    _once(folder / PASSWORDS, lambda: {user: secrets.token_urlsafe(12) for user in users})
    parser = configparser.RawConfigParser()
    parser.read_dict(_settings(keys, project, folder, address, tasks, users, dags, umask))
    parser.read_dict({"database": database or _sqlite(folder)})
    file = folder / "airflow.cfg"
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as target:
        parser.write(target)


def _settings(
    keys: Mapping[str, str],
    project: Path,
    folder: Path,
    address: Address,
    tasks: Address,
    users: Mapping[str, str],
    dags: Path | None,
    umask: int,
) -> dict[str, dict[str, str]]:
    return {
        "core": {
            "dags_folder": str(project / "dags"),
            "plugins_folder": str(project / "plugins"),
            "load_examples": "False",
            "executor": "LocalExecutor",
            "parallelism": "6",
            "default_timezone": "utc",
            "fernet_key": keys["fernet_key"],
            "execution_api_server_url": f"http://{tasks}/execution/",
            "hostname_callable": "socket.gethostname",
            "simple_auth_manager_users": ",".join(f"{user}:{role}" for user, role in users.items()),
            "simple_auth_manager_passwords_file": str(folder / PASSWORDS),
        },
        "logging": {
            "base_log_folder": str(folder / "logs"),
            "dag_processor_child_process_log_directory": str(folder / "logs" / "dag_processor"),
            "colored_console_log": "False",
            "file_task_handler_new_folder_permissions": oct(0o777 & ~umask),
            "file_task_handler_new_file_permissions": oct(0o666 & ~umask),
        },
        "api": {
            "host": address.host,
            "port": str(address.port),
            "base_url": f"http://{address}",
            "workers": "1",
            "secret_key": keys["secret_key"],
            "enable_swagger_ui": "False",
        },
        "api_auth": {"jwt_secret": keys["jwt_secret"], "jwt_issuer": "windrow"},
        "scheduler": {
            "scheduler_heartbeat_sec": "2",
            "task_instance_heartbeat_timeout": "120",
            "catchup_by_default": "False",
            # Airflow's own pattern without an end takes a megabyte, which no process gets as an argument
            "allowed_run_id_pattern": "^[A-Za-z0-9_.~:+-]{1,250}$",
        },
        "dag_processor": {
            "parsing_processes": "1",
            "min_file_process_interval": "30",
            "refresh_interval": "30",
            "bundle_refresh_check_interval": "5",
            "dag_bundle_config_list": json.dumps(_bundles(project, dags)),
        },
        "triggerer": {"capacity": "200"},
    }


def _sqlite(folder: Path) -> dict[str, str]:
    return {
        "sql_alchemy_conn": f"sqlite:///{folder / DATABASE}",
        "sql_alchemy_connect_args": "windrow.platform.sqlite.CONNECT_ARGS",
        "sql_alchemy_connect_args_async": "windrow.platform.sqlite.CONNECT_ARGS",
    }


def _bundles(project: Path, dags: Path | None) -> list[dict[str, Any]]:
    """Folders of DAG files. The project's has the name that Airflow gives to an only folder."""
    folders = {"dags-folder": project / "dags", **({"own-dags": dags} if dags else {})}
    kind = "airflow.dag_processing.bundles.local.LocalDagBundle"
    return [{"name": name, "classpath": kind, "kwargs": {"path": str(path)}} for name, path in folders.items()]


def _new_keys() -> dict[str, str]:
    return {
        "fernet_key": urlsafe_b64encode(secrets.token_bytes(32)).decode(),
        "jwt_secret": secrets.token_urlsafe(64),
        "secret_key": secrets.token_urlsafe(32),
    }


def _once(file: Path, make: Callable[[], dict[str, str]]) -> dict[str, str]:
    """Read the file, which is created the first time.

    Not `files.write_whole`: a secret must be readable by its owner only from the first byte on.
    """
    if not file.exists():
        temporary = file.with_name(f".{file.name}.{os.getpid()}")
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as target:
            json.dump(make(), target)
        temporary.replace(file)
    return dict(json.loads(file.read_text()))
