"""Commands about the state of all pipelines."""

from windrow.cli.show import print_warning
from windrow.config import files_by_name
from windrow.places import Places


def names_of(places: Places) -> list[str]:
    """Return the names of all pipelines; a file that repeats a name is told on standard error, and hides no other."""
    found, clashes = files_by_name(places.pipelines)
    for clash in clashes:
        print_warning(str(clash))
    return sorted(found)
