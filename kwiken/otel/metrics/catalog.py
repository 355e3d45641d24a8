"""Catalogue of all metrics of gateways and replicas; docs/operate/metrics.md shows it as tables.

Names and attributes are OpenTelemetry's semantic conventions where there are any. Others begin with `kw.`,
and an attribute that spans have too has the spans' name.
"""

from __future__ import annotations

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


def _add(
    home: list[Metric],
    name: str,
    kind: MetricKind,
    unit: str,
    *,
    labels: tuple[str, ...] = (),
    help: str,  # noqa: A002 - the name of a part of `Metric`
    question: str,
) -> Metric:
    """Add a metric to a list; see `Metric` for its parts."""
    metric = Metric(name=name, kind=kind, unit=unit, labels=labels, help=help, question=question)
    home.append(metric)
    return metric


# Requests, at the gateway.

REQUEST_DURATION = _add(
    GATEWAY,
    "kw.request.duration",
    MetricKind.HISTOGRAM,
    "s",
    labels=(OUTCOME,),
    help="Time of admitted requests, to the first item of a stream: "
    "answered, failed, deadline, full or cancelled.",
    question="How slow are requests, and how many end well?",
)
REQUESTS_SHED = _add(
    GATEWAY,
    "kw.requests.shed",
    MetricKind.COUNTER,
    "{request}",
    labels=("kw.priority",),
    help="Requests turned away before any work, by priority.",
    question="Is there overload, and whom does it hit?",
)
REQUESTS_ACTIVE = _add(
    GATEWAY,
    "kw.requests.active",
    MetricKind.UP_DOWN_COUNTER,
    "{request}",
    help="Requests that were admitted and are not done.",
    question="How many requests are inside?",
)
REQUESTS_ROOM = _add(
    GATEWAY,
    "kw.requests.room",
    MetricKind.GAUGE,
    "{request}",
    help="Concurrent requests that the gateway and its replicas are known to bear.",
    question="How far is the limit?",
)
LOAD = _add(
    GATEWAY,
    "kw.load",
    MetricKind.GAUGE,
    "1",
    help="Load from 0 to 1 by which requests are shed and copies withheld.",
    question="Will copies stop (from 0.5) or requests be shed (from 0.85)?",
)
LINES_LIMIT = _add(
    GATEWAY,
    "kw.lines.limit",
    MetricKind.GAUGE,
    "{request}",
    help="Requests that run at once before others wait in their lines; missing until it is known.",
    question="How much work at once do the replicas bear?",
)
LINE_WAITING = _add(
    GATEWAY,
    "kw.line.waiting",
    MetricKind.UP_DOWN_COUNTER,
    "{request}",
    labels=("kw.kind",),
    help="Requests that wait in the line of their kind.",
    question="Which kind of requests waits?",
)
LINE_WAIT = _add(
    GATEWAY,
    "kw.line.wait",
    MetricKind.HISTOGRAM,
    "s",
    labels=("kw.kind",),
    help="Time that started requests waited in the line of their kind.",
    question="How long does each kind wait?",
)
LINE_TURNED_AWAY = _add(
    GATEWAY,
    "kw.line.turned_away",
    MetricKind.COUNTER,
    "{request}",
    labels=("kw.kind",),
    help="Requests turned away because they had waited too long in the line of their kind.",
    question="Which kind waits in vain?",
)
LINE_SERVICE = _add(
    GATEWAY,
    "kw.line.service_time",
    MetricKind.GAUGE,
    "s",
    labels=("kw.kind",),
    help="Time that a request of a kind takes where it meets no others, as learned.",
    question="Which kinds are heavy?",
)
REQUESTS_CONTROL = _add(
    GATEWAY,
    "kw.requests.control",
    MetricKind.COUNTER,
    "{request}",
    help="Requests of the control share, which the plan does not touch.",
    question="Are there enough requests that show latency without the plan?",
)
REQUESTS_PARTIAL = _add(
    GATEWAY,
    "kw.requests.partial",
    MetricKind.COUNTER,
    "{request}",
    help="Requests that were answered without some of their parts.",
    question="What share of the answers is partial?",
)
UTILITY_LOST = _add(
    GATEWAY,
    "kw.utility.lost",
    MetricKind.COUNTER,
    "{answer}",
    labels=("kw.cause",),
    help="Utility that partial answers lacked, in whole answers: chosen by a stop rule, or by failures.",
    question="What do partial answers cost the users?",
)
LOOP_LAG = _add(
    GATEWAY,
    "kw.event_loop.lag",
    MetricKind.HISTOGRAM,
    "s",
    help="Delay of a timer that is due every 20 ms.",
    question="Does the gateway's own event loop make requests wait?",
)
CERTIFICATE_VALIDITY = _add(
    GATEWAY,
    "kw.tls.certificate.validity",
    MetricKind.GAUGE,
    "s",
    help="Time until the gateway's certificate expires, below 0 if it has expired; none without TLS.",
    question="Must a certificate be renewed?",
)

HTTP_DURATION = _add(
    GATEWAY,
    "http.server.request.duration",
    MetricKind.HISTOGRAM,
    "s",
    labels=("http.request.method", "http.route", "http.response.status_code", "url.scheme"),
    help="Time of HTTP requests of the service's route, with reading and writing.",
    question="What do callers get, and how fast?",
)
HTTP_ACTIVE = _add(
    GATEWAY,
    "http.server.active_requests",
    MetricKind.UP_DOWN_COUNTER,
    "{request}",
    labels=("http.request.method", "url.scheme"),
    help="HTTP requests of the service's route that are not answered.",
    question="How many requests does the gateway hold?",
)

# Stages and attempts, at the gateway.

CALL_DURATION = _add(
    GATEWAY,
    "kw.stage.call.duration",
    MetricKind.HISTOGRAM,
    "s",
    labels=(STAGE,),
    help="Time of answered calls from the first attempt to the winner's answer, or its first item.",
    question="Which stage is slow?",
)
CALLS_FAILED = _add(
    GATEWAY,
    "kw.stage.calls.failed",
    MetricKind.COUNTER,
    "{call}",
    labels=(STAGE,),
    help="Calls that no attempt answered.",
    question="Which stage fails?",
)
ATTEMPTS = _add(
    GATEWAY,
    "kw.stage.attempts",
    MetricKind.COUNTER,
    "{attempt}",
    labels=(STAGE, KIND, OUTCOME),
    help="Ended attempts: primary, reissue, catch_up or retry; won, lost, cancelled or failed.",
    question="How often do copies win, and what are they sent for?",
)
STAGE_CPU = _add(
    GATEWAY,
    "kw.stage.cpu.time",
    MetricKind.COUNTER,
    "s",
    labels=(STAGE,),
    help="CPU time that replicas reported with their answers.",
    question="What work does a stage do for these requests?",
)
STOPS = _add(
    GATEWAY,
    "kw.stage.stops",
    MetricKind.COUNTER,
    "{answer}",
    labels=(STAGE, "kw.stopped"),
    help="Fan-outs that the stop rule would end, by whether the utility budget let them end.",
    question="How often is an answer given without its last shards?",
)
LATE_CALLS = _add(
    GATEWAY,
    "kw.stage.calls.late",
    MetricKind.COUNTER,
    "{call}",
    labels=(STAGE,),
    help="Calls of late requests that got threads or priority.",
    question="How often does catch-up help?",
)
STAGE_INFO = _add(
    GATEWAY,
    "kw.stage",
    MetricKind.INFO,
    "",
    labels=(SERVICE, STAGE, "kw.after", "kw.fanout", "kw.idempotent", "kw.threads"),
    help="Stages of the service: parents, number of shards, and whether a call may run twice.",
    question="What does the service consist of?",
)

# Budgets, at the gateway.

COPIES_GRANTED = _add(
    GATEWAY,
    "kw.copies.granted",
    MetricKind.COUNTER,
    "{copy}",
    labels=(STAGE, LEVER),
    help="Copies that a budget paid for, by lever (reissue, catch_up).",
    question="Where do copies go?",
)
COPIES_DENIED = _add(
    GATEWAY,
    "kw.copies.denied",
    MetricKind.COUNTER,
    "{copy}",
    labels=(STAGE, REASON),
    help="Copies that were due and not sent, by the bound that denied them, or no_replica.",
    question="Why do slow calls get no copy?",
)
COPIES_PUT_OFF = _add(
    GATEWAY,
    "kw.copies.put_off",
    MetricKind.COUNTER,
    "{call}",
    labels=(STAGE,),
    help="Calls whose copy was due and waited, because calls of all stages took longer than usual.",
    question="Do requests wait for something that all replicas share, a processor say?",
)
RETRIES_DENIED = _add(
    GATEWAY,
    "kw.retries.denied",
    MetricKind.COUNTER,
    "{retry}",
    labels=(STAGE,),
    help="Retries that the stage's retry account did not pay for.",
    question="Is a stage so broken that retries stop?",
)
BUDGET_DENIED = _add(
    GATEWAY,
    "kw.budget.denied",
    MetricKind.COUNTER,
    "{denial}",
    labels=(LEVER, REASON),
    help="Spends that a lever's account denied, by bound.",
    question="Which budget is too small, or which bound too tight?",
)
BUDGET_WORK = _add(
    GATEWAY,
    "kw.budget.work",
    MetricKind.COUNTER,
    "{request}",
    labels=(LEVER,),
    help="Work that a lever's budget is a share of, in requests.",
    question="What is a budget counted against?",
)
BUDGET_EARNED = _add(
    GATEWAY,
    "kw.budget.earned",
    MetricKind.COUNTER,
    "{request}",
    labels=(LEVER,),
    help="Budget that successes earned, in requests' cost (reissue, catch_up) or answers (utility).",
    question="How much may be spent?",
)
BUDGET_SPENT = _add(
    GATEWAY,
    "kw.budget.spent",
    MetricKind.COUNTER,
    "{request}",
    labels=(LEVER,),
    help="Budget spent, in the unit of the earnings.",
    question="What does a lever cost?",
)
BUDGET_LEFT = _add(
    GATEWAY,
    "kw.budget.left",
    MetricKind.GAUGE,
    "{request}",
    labels=(LEVER,),
    help="Budget that the horizon leaves, in the unit of the earnings; negative after forced spends.",
    question="Is a budget exhausted?",
)
BUDGET_FRACTION = _add(
    GATEWAY,
    "kw.budget.fraction",
    MetricKind.GAUGE,
    "1",
    labels=(LEVER,),
    help="Share of the work that the plan in force lets a lever spend.",
    question="What was granted?",
)
BUDGET_HORIZON = _add(
    GATEWAY,
    "kw.budget.horizon.share",
    MetricKind.GAUGE,
    "1",
    labels=(LEVER,),
    help="Spend of the horizon, an hour by default, as a share of its work.",
    question="Does the spend stay within the budget?",
)
STAGE_BUDGET_LEFT = _add(
    GATEWAY,
    "kw.stage.budget.left",
    MetricKind.GAUGE,
    "{call}",
    labels=(STAGE,),
    help="Copies that the horizon leaves to a stage's own account.",
    question="Which stage has used up its part of the budget?",
)

# Replicas, as the gateway sees them.

STAGE_REPLICAS = _add(
    GATEWAY,
    "kw.stage.replicas",
    MetricKind.GAUGE,
    "{replica}",
    labels=(STAGE, "kw.replica.state"),
    help="Replicas of a stage by state: live or ejected.",
    question="Can the stage be served?",
)
REPLICA_EJECTED = _add(
    GATEWAY,
    "kw.replica.ejected",
    MetricKind.GAUGE,
    "{replica}",
    labels=(STAGE, REPLICA, NODE),
    help="1 for a replica that gets no ordinary calls for now, else 0.",
    question="Which replica is in trouble?",
)
REPLICA_ACTIVE = _add(
    GATEWAY,
    "kw.replica.calls.active",
    MetricKind.GAUGE,
    "{call}",
    labels=(STAGE, REPLICA, NODE),
    help="Calls of this gateway that a replica has not answered.",
    question="Which replica is stuck?",
)
REPLICA_LATENCY = _add(
    GATEWAY,
    "kw.replica.latency",
    MetricKind.GAUGE,
    "s",
    labels=(STAGE, REPLICA, NODE),
    help="Estimated latency of a replica, by which it is chosen; the slowest of several.",
    question="Which replica is a straggler?",
)

# The plan, at the gateway.

PLAN_INFO = _add(
    GATEWAY,
    "kw.plan",
    MetricKind.INFO,
    "",
    labels=(SERVICE, "kw.plan", "kw.plan.created"),
    help="Plan in force: its digest and the time of its creation; empty for none.",
    question="Which plan is in force?",
)
PLAN_TRIAL = _add(
    GATEWAY,
    "kw.plan.trial.share",
    MetricKind.GAUGE,
    "1",
    labels=("kw.plan",),
    help="Share of the requests that get a plan that the autopilot tries; 0 without a trial.",
    question="Is a plan tried, and on how many requests?",
)
AUTOPILOT_DECISIONS = _add(
    GATEWAY,
    "kw.autopilot.decisions",
    MetricKind.COUNTER,
    "{decision}",
    labels=("kw.autopilot.action",),
    help="Decisions of the autopilot: apply, widen, keep, roll_back, or wait where a person acts.",
    question="How often does the autopilot act, and how often in vain?",
)
AUTOPILOT_LAST = _add(
    GATEWAY,
    "kw.autopilot.last",
    MetricKind.INFO,
    "",
    labels=("kw.autopilot.action", "kw.autopilot.reason"),
    help="Last decision of the autopilot with its reason, cut at 128 characters; empty for none.",
    question="What did the autopilot do last, and why?",
)
PLAN_CHANGES = _add(
    GATEWAY,
    "kw.plan.changes",
    MetricKind.COUNTER,
    "{change}",
    help="Plans put in force or removed since the start.",
    question="When did the plan change?",
)
PLAN_AFTER = _add(
    GATEWAY,
    "kw.plan.reissue.after",
    MetricKind.GAUGE,
    "s",
    labels=(STAGE,),
    help="Age at which a call of a stage may get a copy; no value for a stage without copies.",
    question="When are copies sent?",
)
PLAN_EXPECTED = _add(
    GATEWAY,
    "kw.plan.expected.duration",
    MetricKind.GAUGE,
    "s",
    labels=("kw.quantile",),
    help="Latency of whole requests that the plan expects, by quantile.",
    question="Is the service still as the plan was made for?",
)

# Replicas, by themselves.

QUEUE_LENGTH = _add(
    REPLICAS,
    "kw.replica.queue.length",
    MetricKind.UP_DOWN_COUNTER,
    "{call}",
    help="Calls that wait to start.",
    question="Does the replica keep up?",
)
SERVED_DURATION = _add(
    REPLICAS,
    "kw.replica.call.duration",
    MetricKind.HISTOGRAM,
    "s",
    labels=(OUTCOME,),
    help="Time of calls at the replica: answered, failed, late, full, refused, invalid or misdirected.",
    question="Is the replica slow, or does it refuse calls, and why?",
)
CALLS_HELD = _add(
    REPLICAS,
    "kw.replica.calls.held",
    MetricKind.UP_DOWN_COUNTER,
    "{call}",
    help="Calls that the replica holds, running or waiting.",
    question="How full is the replica?",
)
REPLICA_CPU = _add(
    REPLICAS,
    "kw.replica.cpu.time",
    MetricKind.COUNTER,
    "s",
    help="CPU time of handlers.",
    question="How much of the replica's processor do calls use?",
)
REPLICA_INFO = _add(
    REPLICAS,
    "kw.replica",
    MetricKind.INFO,
    "",
    labels=(SERVICE, STAGE, REPLICA, NODE),
    help="Stage, name and node of the replica.",
    question="What does this process serve?",
)

# Processes of both kinds.

PROCESS_CPU = _add(
    BOTH,
    "process.cpu.time",
    MetricKind.COUNTER,
    "s",
    labels=("cpu.mode",),
    help="CPU time of the process.",
    question="Is the process short of processor time?",
)
PROCESS_MEMORY = _add(
    BOTH,
    "process.memory.usage",
    MetricKind.UP_DOWN_COUNTER,
    "By",
    help="Resident memory of the process.",
    question="Does the process grow?",
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
