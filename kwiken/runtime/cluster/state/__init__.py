"""State of a running cluster: its document, its files in a folder, and the stop that reads them."""

from __future__ import annotations

from kwiken.runtime.cluster.state.documents import (
    STATE_VERSION as STATE_VERSION,
    ClusterState as ClusterState,
    NodeState as NodeState,
    ProcessState as ProcessState,
)
from kwiken.runtime.cluster.state.files import StateFiles as StateFiles
from kwiken.runtime.cluster.state.folder import StateFolder as StateFolder
from kwiken.runtime.cluster.state.rentals import (
    JOURNAL_VERSION as JOURNAL_VERSION,
    RentalEntry as RentalEntry,
    RentalRecord as RentalRecord,
    read_journal as read_journal,
    settle_orphans as settle_orphans,
    write_journal as write_journal,
)
from kwiken.runtime.cluster.state.stop import stop_cluster as stop_cluster
