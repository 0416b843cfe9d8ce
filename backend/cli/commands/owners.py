"""``owners``."""

from __future__ import annotations

from typing import Annotated

from backend.cli.command import command
from backend.cli.printing import Answer
from backend.services.context.container import Services


@command("owners", at_most_one_of=("only_owner_stops", "everyone_stops"))
def owners(
    services: Services,
    *,
    only_owner_stops: Annotated[bool, "only the owner, and you, stop or remove a job"] = False,
    everyone_stops: Annotated[bool, "every user of the data root does"] = False,
) -> Answer:
    """Show or set who may stop and remove jobs in the data root."""
    if only_owner_stops or everyone_stops:
        rule = services.jobs.set_owner_rule(is_set=only_owner_stops)
    else:
        rule = services.jobs.owner_rule()
    line = "Every user may stop and remove every job."
    if rule is not None:
        setter = f", and {rule.user}," if rule.user else ""
        line = f"Only its owner{setter} may stop or remove a job."
    return Answer({"only_owner_stops": rule is not None, "rule": rule}, line)
