"""`kwiken apply`: a plan put in force at a running gateway, and every kind of refusal."""

from __future__ import annotations

import asyncio
import json
import random
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kwiken.model.plan.plan import Budgets, Costs, Plan, SpanMatch, StagePlan
from kwiken.model.service.service import Service
from kwiken.model.service.stage import Reissue
from kwiken.runtime.base.clock import SystemClock
from kwiken.runtime.engine.executor import Executor
from kwiken.runtime.gateway.server import Gateway
from kwiken.runtime.gateway.settings import GatewaySettings
from kwiken.runtime.wire.transport.local import LocalTransport, local_replicas
from tests.support.project.commands import run

TOKEN = "a-token"


def shop() -> Service:
    service = Service("shop")

    @service.stage(replicas=2, idempotent=True)
    async def price(request: str) -> int:
        return len(request)

    service.check()
    return service


class Running:
    """A gateway on a loop and thread of its own."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.ready = threading.Event()
        self.thread = threading.Thread(target=self._run)
        self.thread.start()
        assert self.ready.wait(30)

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        service = shop()
        self.executor = Executor(
            service,
            LocalTransport(service),
            replicas=local_replicas(service),
            clock=SystemClock(),
            rng=random.Random(1),
        )

        async def start() -> None:
            self.gateway = Gateway(service, self.executor, GatewaySettings(token=TOKEN, remote=False))
            await self.gateway.start()

        self.loop.run_until_complete(start())
        self.ready.set()
        self.loop.run_forever()
        self.loop.run_until_complete(self.gateway.stop(grace_s=0.0, linger_s=0.0))
        self.loop.close()

    def stop(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(30)


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    gateway = Running()
    yield gateway
    gateway.stop()


@pytest.fixture
def plan_file(tmp_path: Path) -> Callable[..., Path]:
    def write(*, service: str = "shop", stage: str = "price") -> Path:
        plan = Plan(
            version=1,
            service=service,
            created="2026-01-01T00:00:00Z",
            profile="sha256:" + "0" * 64,
            budgets=Budgets(reissue=0.05),
            cost=Costs(model="calls", stages={stage: 1.0}),
            stages={
                stage: StagePlan(
                    match=SpanMatch(service=service, operation=stage),
                    reissue=Reissue(after_ms=5.0, fraction=0.05),
                )
            },
        )
        path = tmp_path / "plan.json"
        path.write_text(plan.to_json(), encoding="utf-8")
        return path

    return write


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text(TOKEN + "\n", encoding="ascii")
    return path


def test_a_plan_is_applied_and_removed(
    running: Running, plan_file: Callable[..., Path], token_file: Path
) -> None:
    to = ("--url", running.gateway.url, "--token-file", str(token_file))
    done = run("apply", str(plan_file()), *to)
    assert (done.exit_code, done.stdout) == (0, "")
    assert f"shop: plan applied at {running.gateway.url}" in done.stderr
    assert running.executor.plan is not None
    assert running.executor.plan.stages["price"].reissue is not None
    done = run("apply", "--remove", "shop", *to)
    assert done.exit_code == 0
    assert "plan removed" in done.stderr
    assert running.executor.plan is None


def test_a_dry_run_refuses_what_is_refused_and_changes_nothing(
    running: Running, plan_file: Callable[..., Path], token_file: Path
) -> None:
    to = ("--url", running.gateway.url, "--token-file", str(token_file))
    assert run("apply", str(plan_file()), *to).exit_code == 0
    before, status = running.executor.plan, running.executor.status()
    assert before is not None
    for words in ((str(plan_file()),), ("--remove", "shop")):
        done = run("apply", *words, "--dry-run", *to)
        assert (done.exit_code, done.stdout) == (0, "")
        assert f"shop: {running.gateway.url} would take it; nothing is changed" in done.stderr
    done = run("apply", str(plan_file(stage="nobody")), "--dry-run", *to)
    assert done.exit_code == 2
    assert "refused by the gateway" in done.stderr
    assert "nobody" in done.stderr
    assert running.executor.plan is before
    assert [running.executor.status()[each]["fraction"] for each in ("ledger", "catch_up")] == [
        status[each]["fraction"] for each in ("ledger", "catch_up")
    ]
    assert run("apply", "--remove", "shop", *to).exit_code == 0


def test_the_token_may_come_from_the_environment(
    running: Running, plan_file: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KWIKEN_TOKEN", TOKEN)
    assert run("apply", str(plan_file()), "--url", running.gateway.url).exit_code == 0


@pytest.mark.parametrize(
    ("service", "stage", "said"),
    [("other", "price", "other"), ("shop", "nobody", "nobody")],
)
def test_a_plan_that_does_not_fit_is_refused_and_the_old_one_stays(
    running: Running, plan_file: Callable[..., Path], token_file: Path, service: str, stage: str, said: str
) -> None:
    before = running.executor.plan
    done = run(
        "apply",
        str(plan_file(service=service, stage=stage)),
        "--url",
        running.gateway.url,
        "--token-file",
        str(token_file),
    )
    assert done.exit_code == 2
    assert "refused by the gateway" in done.stderr
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert running.executor.plan is before


def test_a_wrong_token_is_reported(running: Running, plan_file: Callable[..., Path], tmp_path: Path) -> None:
    wrong = tmp_path / "wrong"
    wrong.write_text("another", encoding="ascii")
    done = run("apply", str(plan_file()), "--url", running.gateway.url, "--token-file", str(wrong))
    assert done.exit_code == 2
    assert "Bearer" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "give a plan's file, or --remove SERVICE"),
        (("PLAN", "--remove", "shop"), "give a plan's file, or --remove SERVICE"),
        (("PLAN", "--token-file", "x"), "--token-file goes with --url"),
        (("PLAN",), "service 'shop' is not up"),
        (("--remove", "shop"), "service 'shop' is not up"),
        (("PLAN", "--url", "http://127.0.0.1:1"), "needs a token"),
        (("PLAN", "--url", "http://127.0.0.1:1", "--token-file", "TOKEN"), "does not answer"),
        (("PLAN", "--url", "ftp://127.0.0.1:1", "--token-file", "TOKEN"), "not an http or https address"),
        (("PLAN", "--url", "http://127.0.0.1:1", "--token-file", "no-such"), "holds no token"),
        (("no-such.json",), "no-such.json"),
    ],
)
def test_each_mistake_is_one_line(
    plan_file: Callable[..., Path],
    token_file: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    said: str,
) -> None:
    monkeypatch.delenv("KWIKEN_TOKEN", raising=False)
    names = {"PLAN": str(plan_file()), "TOKEN": str(token_file)}
    state = () if "--url" in arguments else ("--state", str(tmp_path / "state"))
    done = run("apply", *(names.get(word, word) for word in arguments), *state)
    assert done.exit_code == 2
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_profile_is_no_plan(tmp_path: Path) -> None:
    path = tmp_path / "profile.json"
    path.write_text(json.dumps({"version": 1, "service": "shop", "stages": []}), encoding="utf-8")
    done = run("apply", str(path), "--url", "http://127.0.0.1:1")
    assert done.exit_code == 2
    assert "profile.json" in done.stderr
