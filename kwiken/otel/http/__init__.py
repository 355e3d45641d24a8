"""HTTP between kwiken and stores of traces and metrics: addresses, downloads, and bounds of every answer.

Importing this package loads none of its modules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwiken.base.lazy import lazy_names

if TYPE_CHECKING:
    from kwiken.otel.http.bounded_answers import (
        COLLECTOR as COLLECTOR,
        PROMETHEUS as PROMETHEUS,
        SPARK_HISTORY as SPARK_HISTORY,
    )
    from kwiken.otel.http.download import StatusError as StatusError, downloaded as downloaded
    from kwiken.otel.http.exporter_session import collector_session as collector_session
    from kwiken.otel.http.jaeger_api import JaegerQuery as JaegerQuery, fetched as fetched
    from kwiken.otel.http.query_address import QueryAddress as QueryAddress, scheme_of as scheme_of

__getattr__ = lazy_names(__name__, __file__)
