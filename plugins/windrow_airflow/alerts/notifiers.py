"""Who is told of which conditions: the file of notifiers, read strictly, and one notification.

    oncall:                                                      a name of your choice
      class: airflow.providers.smtp.notifications.smtp.SmtpNotifier
      arguments: {smtp_conn_id: mail, to: …, subject: "{{ alert.title }}", html_content: "{{ alert.html }}"}
      conditions: [blocked, late]                                all, where it is left out
      pipelines: [feed]                                          all, where it is left out

Any Airflow notifier works. A secret belongs in the Airflow connection that an argument names; an argument that looks
like one is refused. Each text is a template that is rendered once: by the notifier where its class says that it does
so, otherwise here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import StrictUndefined, TemplateError
from jinja2.sandbox import SandboxedEnvironment
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from windrow.config.problems import PipelineInvalid
from windrow.config.yaml_file import read_document, read_text
from windrow.semantics.alerts.conditions import Condition
from windrow_airflow.alerts import messages
from windrow_airflow.alerts.messages import Message

if TYPE_CHECKING:
    from airflow.sdk import BaseNotifier

_NAME = re.compile(r"[a-zA-Z][\w-]{0,63}")
_SECRET = re.compile(r"(?i)(^|_)(password|passwd|secret|token|api_?key|integration_key|authorization)$")


class NotifiersInvalid(Exception):
    """The file of notifiers cannot be used, so nobody is told; an edit of it helps."""


class Notifier(BaseModel):
    """One entry of the file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    class_: str = Field(alias="class")
    arguments: dict[str, Any] = {}
    conditions: tuple[Condition, ...] = tuple(Condition)
    pipelines: tuple[str, ...] | None = None

    def hears_of(self, pipeline: str, condition: str) -> bool:
        """Whether it is told of a condition of a pipeline."""
        return condition in self.conditions and (self.pipelines is None or pipeline in self.pipelines)

    def loaded(self) -> type[BaseNotifier]:
        """Import the class.

        Raises:
            NotifiersInvalid: there is no such class, or it is no notifier.
        """
        from airflow.sdk import BaseNotifier
        from airflow.sdk.module_loading import import_string

        try:
            found = import_string(self.class_)
        except ImportError as missing:
            raise NotifiersInvalid(f"class: {missing}. Install the provider that has it, or correct it") from None
        if not (isinstance(found, type) and issubclass(found, BaseNotifier)):
            raise NotifiersInvalid(f"class: {self.class_} is no Airflow notifier (a subclass of BaseNotifier)")
        return found

    def tell(self, message: Message) -> None:
        """Tell of a begin or an end.

        Raises:
            Exception: whatever the notifier raises.
        """
        kind = self.loaded()
        own = set(kind.template_fields)
        arguments = {n: value if n in own else _rendered(value, message) for n, value in self.arguments.items()}
        kind(**arguments)({"alert": message})


def load(file: Path) -> dict[str, Notifier]:
    """Return the notifiers of a file by name; none where there is no file.

    Raises:
        NotifiersInvalid: with every problem.
    """
    if not file.exists():
        return {}
    try:
        document = read_document(read_text(file), file, typed=True)
    except PipelineInvalid as invalid:
        raise NotifiersInvalid(str(invalid)) from None
    problems, found = [str(problem) for problem in document.problems], {}
    for name, entry in document.tree.items():
        try:
            found[name] = _checked(name, entry)
        except (NotifiersInvalid, ValidationError, TemplateError) as wrong:
            problems.append(f"{file}:{document.line((name,))}: {name}: {_words(wrong)}")
    if problems:
        raise NotifiersInvalid("\n".join(["nobody is told of alerts until this is fixed:", *problems]))
    return found


def names_for(notifiers: Mapping[str, Notifier], pipeline: str, condition: str) -> Sequence[str]:
    """Return the names of those that are told of a condition of a pipeline."""
    return [name for name, one in notifiers.items() if one.hears_of(pipeline, condition)]


def _checked(name: str, entry: Any) -> Notifier:
    if not _NAME.fullmatch(name):
        raise NotifiersInvalid("a name has letters, digits, - and _ only, and begins with a letter")
    made = Notifier.model_validate(entry)
    if secret := next((argument for argument in _names_in(made.arguments) if _SECRET.search(argument)), None):
        raise NotifiersInvalid(f"arguments.{secret}: a secret belongs in an Airflow connection; name its id here")
    made.loaded()
    _rendered(made.arguments, messages.example())  # a template with a wrong name is found now, not at the first alert
    return made


def _names_in(value: Any) -> Iterator[str]:
    """Names of arguments, also of those inside others, such as headers."""
    if isinstance(value, dict):
        yield from map(str, value)
    for one in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _names_in(one)


def _rendered(value: Any, message: Message) -> Any:
    if isinstance(value, str):
        return SandboxedEnvironment(undefined=StrictUndefined).from_string(value).render(alert=message)
    if isinstance(value, dict):
        return {name: _rendered(one, message) for name, one in value.items()}
    return [_rendered(one, message) for one in value] if isinstance(value, list) else value


def _words(wrong: Exception) -> str:
    if isinstance(wrong, ValidationError):
        return "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in wrong.errors())
    return f"template: {wrong}" if isinstance(wrong, TemplateError) else str(wrong)
