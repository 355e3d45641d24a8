"""Table of addresses: which instance of which service, in which zone, answers at an address; as CSV."""

from __future__ import annotations

import csv
from io import StringIO
from typing import Final

from kwiken.base.errors import InputError
from kwiken.traffic.flows import TrafficEndpoint

_NEEDED: Final = ("address", "service")
_FIELDS: Final = (*_NEEDED, "name", "node", "zone")


def endpoints_by_address(text: str, *, where: str) -> dict[str, TrafficEndpoint]:
    """Read a table with the columns address and service, and if wanted name, node and zone.

    Args:
        where: source to name in errors, such as a file's path.

    Raises:
        InputError: names the line of an address that is given twice, or a column that is missing or unknown.
    """
    rows = csv.DictReader(StringIO(text))
    head = rows.fieldnames or ()
    for name in _NEEDED:
        if name not in head:
            raise InputError(f"has no column {name}; columns are {', '.join(_FIELDS)}", where=where)
    for name in head:
        if name not in _FIELDS:
            raise InputError(f"has a column {name!r}; columns are {', '.join(_FIELDS)}", where=where)
    found: dict[str, TrafficEndpoint] = {}
    try:
        for row in rows:
            line = f"{where}:{rows.line_num}"
            if None in row or None in row.values():
                raise InputError(f"must have {len(head)} columns", where=line)
            address, service = row["address"].strip(), row["service"].strip()
            if not address or not service:
                raise InputError("has an empty address or service", where=line)
            if address in found:
                raise InputError(f"gives {address} twice", where=line)
            found[address] = TrafficEndpoint(
                name=(row.get("name") or "").strip() or address,
                service=service,
                node=(row.get("node") or "").strip(),
                zone=(row.get("zone") or "").strip(),
            )
    except csv.Error as error:
        raise InputError(f"broken CSV: {error}", where=f"{where}:{rows.line_num}") from error
    return found
