"""Catalogue of all metrics of gateways and replicas; docs/operate/metrics.md shows it as tables.

Names and attributes are OpenTelemetry's semantic conventions where there are any. Others begin with `kw.`,
and an attribute that spans have too has the spans' name.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from kwiken.otel.metrics.model import Metric, MetricKind

SERVICE: Final = "kw.service"
STAGE: Final = "kw.stage"
OUTCOME: Final = "kw.outcome"
KIND: Final = "kw.attempt.kind"
LEVER: Final = "kw.lever"
REASON: Final = "kw.reason"
REPLICA: Final = "kw.replica"
NODE: Final = "kw.node"

GATEWAY: list[Metric] = []
REPLICAS: list[Metric] = []
BOTH: list[Metric] = []


def _listed(
    home: list[Metric], name: str, kind: MetricKind, unit: str, *labels: str
) -> Callable[[str, str], Metric]:
    """Function that makes a metric of its help and its question, and adds it to a list; see `Metric`."""

    def listed(text: str, question: str) -> Metric:
        home.append(Metric(name=name, kind=kind, unit=unit, labels=labels, help=text, question=question))
        return home[-1]

    return listed


_gateway, _replica, _process = partial(_listed, GATEWAY), partial(_listed, REPLICAS), partial(_listed, BOTH)

# Requests, at the gateway.

REQUEST_DURATION = _gateway("kw.request.duration", MetricKind.HISTOGRAM, "s", OUTCOME)(
    "Time of admitted requests, to the first item of a stream: "
    "answered, failed, deadline, full or cancelled.",
    "How slow are requests, and how many end well?",
)
REQUESTS_SHED = _gateway("kw.requests.shed", MetricKind.COUNTER, "{request}", "kw.priority")(
    "Requests turned away before any work, by priority.", "Is there overload, and whom does it hit?"
)
REQUESTS_ACTIVE = _gateway("kw.requests.active", MetricKind.UP_DOWN_COUNTER, "{request}")(
    "Requests that were admitted and are not done.", "How many requests are inside?"
)
REQUESTS_ROOM = _gateway("kw.requests.room", MetricKind.GAUGE, "{request}")(
    "Concurrent requests that the gateway and its replicas are known to bear.", "How far is the limit?"
)
LOAD = _gateway("kw.load", MetricKind.GAUGE, "1")(
    "Load from 0 to 1 by which requests are shed and copies withheld.",
    "Will copies stop (from 0.5) or requests be shed (from 0.85)?",
)
LINES_LIMIT = _gateway("kw.lines.limit", MetricKind.GAUGE, "{request}")(
    "Requests that run at once before others wait in their lines; missing until it is known.",
    "How much work at once do the replicas bear?",
)
LINE_WAITING = _gateway("kw.line.waiting", MetricKind.UP_DOWN_COUNTER, "{request}", "kw.kind")(
    "Requests that wait in the line of their kind.", "Which kind of requests waits?"
)
LINE_WAIT = _gateway("kw.line.wait", MetricKind.HISTOGRAM, "s", "kw.kind")(
    "Time that started requests waited in the line of their kind.", "How long does each kind wait?"
)
LINE_TURNED_AWAY = _gateway("kw.line.turned_away", MetricKind.COUNTER, "{request}", "kw.kind")(
    "Requests turned away because they had waited too long in the line of their kind.",
    "Which kind waits in vain?",
)
LINE_SERVICE = _gateway("kw.line.service_time", MetricKind.GAUGE, "s", "kw.kind")(
    "Time that a request of a kind takes where it meets no others, as learned.", "Which kinds are heavy?"
)
REQUESTS_CONTROL = _gateway("kw.requests.control", MetricKind.COUNTER, "{request}")(
    "Requests of the control share, which the plan does not touch.",
    "Are there enough requests that show latency without the plan?",
)
REQUESTS_PARTIAL = _gateway("kw.requests.partial", MetricKind.COUNTER, "{request}")(
    "Requests that were answered without some of their parts.", "What share of the answers is partial?"
)
UTILITY_LOST = _gateway("kw.utility.lost", MetricKind.COUNTER, "{answer}", "kw.cause")(
    "Utility that partial answers lacked, in whole answers: chosen by a stop rule, or by failures.",
    "What do partial answers cost the users?",
)
LOOP_LAG = _gateway("kw.event_loop.lag", MetricKind.HISTOGRAM, "s")(
    "Delay of a timer that is due every 20 ms.", "Does the gateway's own event loop make requests wait?"
)
CERTIFICATE_VALIDITY = _gateway("kw.tls.certificate.validity", MetricKind.GAUGE, "s")(
    "Time until the gateway's certificate expires, below 0 if it has expired; none without TLS.",
    "Must a certificate be renewed?",
)
HTTP_DURATION = _gateway(
    "http.server.request.duration",
    MetricKind.HISTOGRAM,
    "s",
    "http.request.method",
    "http.route",
    "http.response.status_code",
    "url.scheme",
)(
    "Time of HTTP requests of the service's route, with reading and writing.",
    "What do callers get, and how fast?",
)
HTTP_ACTIVE = _gateway(
    "http.server.active_requests",
    MetricKind.UP_DOWN_COUNTER,
    "{request}",
    "http.request.method",
    "url.scheme",
)("HTTP requests of the service's route that are not answered.", "How many requests does the gateway hold?")

# Stages and attempts, at the gateway.

CALL_DURATION = _gateway("kw.stage.call.duration", MetricKind.HISTOGRAM, "s", STAGE)(
    "Time of answered calls from the first attempt to the winner's answer, or its first item.",
    "Which stage is slow?",
)
CALLS_FAILED = _gateway("kw.stage.calls.failed", MetricKind.COUNTER, "{call}", STAGE)(
    "Calls that no attempt answered.", "Which stage fails?"
)
ATTEMPTS = _gateway("kw.stage.attempts", MetricKind.COUNTER, "{attempt}", STAGE, KIND, OUTCOME)(
    "Ended attempts: primary, reissue, catch_up or retry; won, lost, cancelled or failed.",
    "How often do copies win, and what are they sent for?",
)
STAGE_CPU = _gateway("kw.stage.cpu.time", MetricKind.COUNTER, "s", STAGE)(
    "CPU time that replicas reported with their answers.", "What work does a stage do for these requests?"
)
STOPS = _gateway("kw.stage.stops", MetricKind.COUNTER, "{answer}", STAGE, "kw.stopped")(
    "Fan-outs that the stop rule would end, by whether the utility budget let them end.",
    "How often is an answer given without its last shards?",
)
LATE_CALLS = _gateway("kw.stage.calls.late", MetricKind.COUNTER, "{call}", STAGE)(
    "Calls of late requests that got threads or priority.", "How often does catch-up help?"
)
STAGE_INFO = _gateway(
    "kw.stage", MetricKind.INFO, "", SERVICE, STAGE, "kw.after", "kw.fanout", "kw.idempotent", "kw.threads"
)(
    "Stages of the service: parents, number of shards, and whether a call may run twice.",
    "What does the service consist of?",
)

# Budgets, at the gateway.

COPIES_GRANTED = _gateway("kw.copies.granted", MetricKind.COUNTER, "{copy}", STAGE, LEVER)(
    "Copies that a budget paid for, by lever (reissue, catch_up).", "Where do copies go?"
)
COPIES_DENIED = _gateway("kw.copies.denied", MetricKind.COUNTER, "{copy}", STAGE, REASON)(
    "Copies that were due and not sent, by the bound that denied them, or no_replica.",
    "Why do slow calls get no copy?",
)
COPIES_PUT_OFF = _gateway("kw.copies.put_off", MetricKind.COUNTER, "{call}", STAGE)(
    "Calls whose copy was due and waited, because calls of all stages took longer than usual.",
    "Do requests wait for something that all replicas share, a processor say?",
)
RETRIES_DENIED = _gateway("kw.retries.denied", MetricKind.COUNTER, "{retry}", STAGE)(
    "Retries that the stage's retry account did not pay for.", "Is a stage so broken that retries stop?"
)
BUDGET_DENIED = _gateway("kw.budget.denied", MetricKind.COUNTER, "{denial}", LEVER, REASON)(
    "Spends that a lever's account denied, by bound.", "Which budget is too small, or which bound too tight?"
)
BUDGET_WORK = _gateway("kw.budget.work", MetricKind.COUNTER, "{request}", LEVER)(
    "Work that a lever's budget is a share of, in requests.", "What is a budget counted against?"
)
BUDGET_EARNED = _gateway("kw.budget.earned", MetricKind.COUNTER, "{request}", LEVER)(
    "Budget that successes earned, in requests' cost (reissue, catch_up) or answers (utility).",
    "How much may be spent?",
)
BUDGET_SPENT = _gateway("kw.budget.spent", MetricKind.COUNTER, "{request}", LEVER)(
    "Budget spent, in the unit of the earnings.", "What does a lever cost?"
)
BUDGET_LEFT = _gateway("kw.budget.left", MetricKind.GAUGE, "{request}", LEVER)(
    "Budget that the horizon leaves, in the unit of the earnings; negative after forced spends.",
    "Is a budget exhausted?",
)
BUDGET_FRACTION = _gateway("kw.budget.fraction", MetricKind.GAUGE, "1", LEVER)(
    "Share of the work that the plan in force lets a lever spend.", "What was granted?"
)
BUDGET_HORIZON = _gateway("kw.budget.horizon.share", MetricKind.GAUGE, "1", LEVER)(
    "Spend of the horizon, an hour by default, as a share of its work.",
    "Does the spend stay within the budget?",
)
STAGE_BUDGET_LEFT = _gateway("kw.stage.budget.left", MetricKind.GAUGE, "{call}", STAGE)(
    "Copies that the horizon leaves to a stage's own account.",
    "Which stage has used up its part of the budget?",
)

# Replicas, as the gateway sees them.

STAGE_REPLICAS = _gateway("kw.stage.replicas", MetricKind.GAUGE, "{replica}", STAGE, "kw.replica.state")(
    "Replicas of a stage by state: live or ejected.", "Can the stage be served?"
)
REPLICA_EJECTED = _gateway("kw.replica.ejected", MetricKind.GAUGE, "{replica}", STAGE, REPLICA, NODE)(
    "1 for a replica that gets no ordinary calls for now, else 0.", "Which replica is in trouble?"
)
REPLICA_ACTIVE = _gateway("kw.replica.calls.active", MetricKind.GAUGE, "{call}", STAGE, REPLICA, NODE)(
    "Calls of this gateway that a replica has not answered.", "Which replica is stuck?"
)
REPLICA_LATENCY = _gateway("kw.replica.latency", MetricKind.GAUGE, "s", STAGE, REPLICA, NODE)(
    "Estimated latency of a replica, by which it is chosen; the slowest of several.",
    "Which replica is a straggler?",
)

# The plan, at the gateway.

PLAN_INFO = _gateway("kw.plan", MetricKind.INFO, "", SERVICE, "kw.plan", "kw.plan.created")(
    "Plan in force: its digest and the time of its creation; empty for none.", "Which plan is in force?"
)
PLAN_TRIAL = _gateway("kw.plan.trial.share", MetricKind.GAUGE, "1", "kw.plan")(
    "Share of the requests that get a plan that the autopilot tries; 0 without a trial.",
    "Is a plan tried, and on how many requests?",
)
AUTOPILOT_DECISIONS = _gateway(
    "kw.autopilot.decisions", MetricKind.COUNTER, "{decision}", "kw.autopilot.action"
)(
    "Decisions of the autopilot: apply, widen, keep, roll_back, or wait where a person acts.",
    "How often does the autopilot act, and how often in vain?",
)
AUTOPILOT_LAST = _gateway(
    "kw.autopilot.last", MetricKind.INFO, "", "kw.autopilot.action", "kw.autopilot.reason"
)(
    "Last decision of the autopilot with its reason, cut at 128 characters; empty for none.",
    "What did the autopilot do last, and why?",
)
PLAN_CHANGES = _gateway("kw.plan.changes", MetricKind.COUNTER, "{change}")(
    "Plans put in force or removed since the start.", "When did the plan change?"
)
PLAN_AFTER = _gateway("kw.plan.reissue.after", MetricKind.GAUGE, "s", STAGE)(
    "Age at which a call of a stage may get a copy; no value for a stage without copies.",
    "When are copies sent?",
)
PLAN_EXPECTED = _gateway("kw.plan.expected.duration", MetricKind.GAUGE, "s", "kw.quantile")(
    "Latency of whole requests that the plan expects, by quantile.",
    "Is the service still as the plan was made for?",
)

# Replicas, by themselves.

QUEUE_LENGTH = _replica("kw.replica.queue.length", MetricKind.UP_DOWN_COUNTER, "{call}")(
    "Calls that wait to start.", "Does the replica keep up?"
)
SERVED_DURATION = _replica("kw.replica.call.duration", MetricKind.HISTOGRAM, "s", OUTCOME)(
    "Time of calls at the replica: answered, failed, late, full, refused, invalid or misdirected.",
    "Is the replica slow, or does it refuse calls, and why?",
)
CALLS_HELD = _replica("kw.replica.calls.held", MetricKind.UP_DOWN_COUNTER, "{call}")(
    "Calls that the replica holds, running or waiting.", "How full is the replica?"
)
REPLICA_CPU = _replica("kw.replica.cpu.time", MetricKind.COUNTER, "s")(
    "CPU time of handlers.", "How much of the replica's processor do calls use?"
)
REPLICA_INFO = _replica("kw.replica", MetricKind.INFO, "", SERVICE, STAGE, REPLICA, NODE)(
    "Stage, name and node of the replica.", "What does this process serve?"
)

# Processes of both kinds.

PROCESS_CPU = _process("process.cpu.time", MetricKind.COUNTER, "s", "cpu.mode")(
    "CPU time of the process.", "Is the process short of processor time?"
)
PROCESS_MEMORY = _process("process.memory.usage", MetricKind.UP_DOWN_COUNTER, "By")(
    "Resident memory of the process.", "Does the process grow?"
)

# In Prometheus only; OTLP sends the same as the resource.
TARGET_INFO = Metric(
    name="target",
    kind=MetricKind.INFO,
    unit="",
    labels=("service.name", "service.version", "service.instance.id"),
    help="Resource of the process.",
    question="Which service and version is this?",
)
ALL: Final[tuple[Metric, ...]] = (*GATEWAY, *REPLICAS, *BOTH, TARGET_INFO)
