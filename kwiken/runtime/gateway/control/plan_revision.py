"""Revision of the plan in force, by which gateways that were apart agree on one: the newest wins. Pure.

A person's act gets the milliseconds since 1970 as its number, so that the later one wins, wherever it was.
What an autopilot does follows what it knew: one above the last number, so below any later act of a person.
"""

from __future__ import annotations

import msgspec

from kwiken.runtime.gateway.control.steering import PERSON, Author


class PlanRevision(msgspec.Struct, frozen=True, order=True, forbid_unknown_fields=True):
    """Revision of a plan; of two the greater is in force.

    Attributes:
        number: 0 for the plan that a gateway started with.
        by: who put it in force, and at which gateway; decides between equal numbers.
    """

    number: int = 0
    by: str = ""

    def after(self, author: Author | None, gateway: str, now_ms: int) -> PlanRevision:
        """Revision of a change at a gateway that has this one.

        Args:
            now_ms: present time, milliseconds since 1970.
        """
        number = max(self.number + 1, now_ms) if author == PERSON else self.number + 1
        return PlanRevision(number, f"{author}@{gateway}")


FIRST = PlanRevision()


class PlanOffer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Plan in force at a gateway, for a sibling.

    Attributes:
        plan: plan as JSON; null for none.
        author: who put it in force; None for nobody.
    """

    revision: PlanRevision
    author: Author | None
    plan: msgspec.Raw
