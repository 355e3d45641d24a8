"""Service definitions: every mistake is refused when it is made, with an error that names the stage."""

from __future__ import annotations

import functools
import itertools
import math
from typing import Any

import pytest
from hypothesis import given, strategies as st

from kwiken.base.errors import DefinitionError
from kwiken.model.service.service import Service
from kwiken.model.service.stage import Partial, Reissue, Stage


async def answer(request: Any) -> Any:
    return request


async def shard_answer(request: Any, *, shard: int) -> Any:
    return request, shard


async def merge(parts: Partial[Any]) -> Any:
    return parts.present


def with_fanout(**settings: Any) -> Service:
    service = Service("demo")
    service.stage(name="lookup", fanout=4, **settings)(shard_answer)
    return service


def refused(stage: str, *words: str) -> Any:
    pattern = ".*".join([f"^stage '{stage}': ", *words])
    return pytest.raises(DefinitionError, match=f"(?s){pattern}")


class TestStageSettings:
    @pytest.mark.parametrize(
        "name", ["", "1st", "-a", "a b", "a/b", "a\n", "é", "x" * 65, "a:b", None, 5, b"a", ("a",)]
    )
    def test_bad_names_are_refused(self, name: Any) -> None:
        with pytest.raises(DefinitionError, match="starts with a letter"):
            Stage(name=name)

    @pytest.mark.parametrize("name", ["a", "A1", "a.b-c_d", "x" * 64])
    def test_good_names_are_taken(self, name: str) -> None:
        assert Stage(name=name).name == name

    @pytest.mark.parametrize("name", ["", "1st", "a b", "x" * 65, None])
    def test_bad_service_names_are_refused(self, name: Any) -> None:
        with pytest.raises(DefinitionError, match="starts with a letter"):
            Service(name)

    @pytest.mark.parametrize("field", ["fanout", "replicas"])
    @pytest.mark.parametrize("value", [0, -1, 1.0, 2.5, True, "3", None, math.nan, 10_001, 10**400])
    def test_counts_are_whole_and_bounded(self, field: str, value: Any) -> None:
        with refused("a", field, "whole number from 1 to 10000"):
            Stage(name="a", **{field: value})

    @pytest.mark.parametrize("field", ["timeout_ms", "utility_weight", "cost"])
    @pytest.mark.parametrize("value", [0, -1.0, math.nan, math.inf, -math.inf, "5", True, [], 10**400])
    def test_numbers_are_finite_and_positive(self, field: str, value: Any) -> None:
        with refused("a", field, "number above 0"):
            Stage(name="a", **{field: value})

    @pytest.mark.parametrize("field", ["timeout_ms", "utility_weight"])
    def test_only_cost_may_be_unknown(self, field: str) -> None:
        assert Stage(name="a", cost=None).cost is None
        unknown: dict[str, Any] = {field: None}
        with refused("a", field):
            Stage(name="a", **unknown)

    @pytest.mark.parametrize("field", ["idempotent", "optional"])
    @pytest.mark.parametrize("value", [1, 0, "yes", None])
    def test_flags_are_booleans(self, field: str, value: Any) -> None:
        with refused("a", field, "True or False"):
            Stage(name="a", **{field: value})

    @pytest.mark.parametrize("after", ["b", (1,), {"b"}, None, 7, ("b", None)])
    def test_parents_are_a_list_of_names(self, after: Any) -> None:
        with refused("a", "`after` must be a list"):
            Stage(name="a", after=after)

    def test_a_list_of_parents_becomes_a_tuple(self) -> None:
        after: Any = ["b", "c"]
        assert Stage(name="a", after=after).after == ("b", "c")

    def test_a_parent_stands_once(self) -> None:
        with refused("a", "twice"):
            Stage(name="a", after=("b", "b"))

    def test_a_stage_does_not_follow_itself(self) -> None:
        with refused("a", "after itself"):
            Stage(name="a", after=("a",))

    def test_a_utility_needs_a_fanout(self) -> None:
        with refused("a", "utility but no fanout"):
            Stage(name="a", utility=lambda _: 1.0)
        with refused("a", "worth but no fanout"):
            Stage(name="a", worth=lambda _: [1.0])

    @pytest.mark.parametrize("threads", [0, -1, 2.0, True, 100_000])
    def test_threads_are_a_whole_number(self, threads: Any) -> None:
        with refused("a", "threads must be a whole number"):
            Stage(name="a", threads=threads)

    @pytest.mark.parametrize("field", ["utility", "worth", "setup"])
    def test_functions_are_functions(self, field: str) -> None:
        with refused("a", field, "must be a function"):
            Stage(name="a", fanout=2, **{field: 0.5})  # type: ignore[arg-type]


class TestReissue:
    def test_a_stage_that_may_not_run_twice_is_not_reissued(self) -> None:
        with refused("a", "not idempotent"):
            Stage(name="a", replicas=2, reissue=Reissue(after_ms=5))

    def test_a_copy_needs_another_replica(self) -> None:
        with refused("a", "one replica"):
            Stage(name="a", idempotent=True, reissue=Reissue(after_ms=5))

    def test_a_reissue_is_a_reissue(self) -> None:
        reissue: Any = {"after_ms": 5}
        with refused("a", "must be a Reissue"):
            Stage(name="a", idempotent=True, replicas=2, reissue=reissue)

    @pytest.mark.parametrize(
        "settings",
        [
            {"after_ms": -1},
            {"after_ms": math.nan},
            {"after_ms": math.inf},
            {"after_ms": 1e300},
            {"after_ms": 5, "probability": 0},
            {"after_ms": 5, "probability": 1.1},
            {"after_ms": 5, "probability": math.nan},
            {"after_ms": 5, "copies": 0},
            {"after_ms": 5, "copies": 17},
            {"after_ms": 5, "fraction": -0.1},
            {"after_ms": 5, "fraction": 1.1},
            {"after_ms": 5, "fraction": math.nan},
        ],
    )
    def test_impossible_policies_are_refused(self, settings: dict[str, Any]) -> None:
        with pytest.raises(ValueError, match=list(settings)[-1]):
            Reissue(**settings)


class TestEdges:
    def test_an_unknown_parent_is_named_with_those_known(self) -> None:
        service = Service("demo")
        service.stage(name="a")(answer)
        with refused("b", "after 'c'", "known: a"):
            service.stage(name="b", after=["c"])(answer)

    def test_an_undeclared_handler_is_no_parent(self) -> None:
        service = Service("demo")
        with refused("b", "after 'answer'", "known: none"):
            service.stage(name="b", after=[answer])(answer)

    @pytest.mark.parametrize("after", ["a", answer, 5])
    def test_a_lone_parent_is_not_a_list(self, after: Any) -> None:
        service = Service("demo")
        service.stage(name="a")(answer)
        with refused("b", r"after=\[parent\]"):
            service.stage(name="b", after=after)(answer)

    def test_a_handler_of_two_stages_must_be_named(self) -> None:
        service = Service("demo")
        service.stage(name="a")(answer)
        service.stage(name="b")(answer)
        with refused("c", "several stages", "a, b"):
            service.stage(name="c", after=[answer])(answer)
        service.stage(name="c", after=["b"])(answer)
        assert service["c"].after == ("b",)

    def test_a_name_is_used_once(self) -> None:
        service = Service("demo")
        service.stage(name="a")(answer)
        with refused("a", "twice"):
            service.stage(name="a")(answer)
        with refused("a", "twice"):
            Service.of("demo", [Stage(name="a"), Stage(name="a")])

    def test_a_cycle_is_spelt_out(self) -> None:
        stages = [
            Stage(name="after_it", after=("x",)),
            Stage(name="x", after=("z",)),
            Stage(name="y", after=("x",)),
            Stage(name="z", after=("y",)),
        ]
        with pytest.raises(DefinitionError, match="cycle: x -> z -> y -> x") as caught:
            Service.of("demo", stages)
        assert caught.value.stage == "x"

    @given(st.integers(2, 12), st.randoms(use_true_random=False))
    def test_any_ring_is_found_and_spelt_out_truly(self, size: int, random: Any) -> None:
        names = [f"s{number}" for number in range(size)]
        ring = [Stage(name=name, after=(names[position - 1],)) for position, name in enumerate(names)]
        tail = Stage(name="tail", after=(random.choice(names),))
        stages = [*ring, tail]
        random.shuffle(stages)
        with pytest.raises(DefinitionError) as caught:
            Service.of("demo", stages)
        path = str(caught.value).partition("cycle: ")[2].split(" -> ")
        parents = {stage.name: stage.after for stage in stages}
        assert path[0] == path[-1] == caught.value.stage
        assert all(after in parents[name] for name, after in itertools.pairwise(path))

    def test_stages_keep_the_order_given_when_it_is_one(self) -> None:
        stages = [
            Stage(name="a"),
            Stage(name="b", after=("a",)),
            Stage(name="c"),
            Stage(name="d", after=("c", "b")),
        ]
        assert list(Service.of("demo", stages).stages) == ["a", "b", "c", "d"]

    def test_parents_come_first_whatever_the_order(self) -> None:
        stages = [Stage(name=f"s{n}", after=(f"s{n - 1}",) if n else ()) for n in range(50)]
        assert list(Service.of("demo", reversed(stages)).stages) == [f"s{n}" for n in range(50)]

    def test_a_service_is_bounded(self) -> None:
        with refused("s1000", "at most 1000"):
            Service.of("demo", [Stage(name=f"s{n}") for n in range(1001)])

    def test_the_stages_cannot_be_written_to(self) -> None:
        service = Service.of("demo", [Stage(name="a")])
        stages: Any = service.stages
        with pytest.raises(TypeError):
            stages["b"] = Stage(name="b")
        service.add(Stage(name="b", after=("a",)))
        assert list(stages) == ["a", "b"]

    def test_an_unknown_stage_is_answered_with_the_known(self) -> None:
        with pytest.raises(DefinitionError, match="has no stage 'b'; it has: a"):
            Service.of("demo", [Stage(name="a")])["b"]


class TestWhole:
    def test_one_stage_must_be_last(self) -> None:
        service = Service.of("demo", [Stage(name="a"), Stage(name="b")])
        with pytest.raises(DefinitionError, match="exactly one stage, not in: a, b"):
            service.check()

    def test_an_empty_service_cannot_run(self) -> None:
        with pytest.raises(DefinitionError, match="no stage at all"):
            Service("demo").check()

    def test_a_fanout_at_the_end_has_no_merge(self) -> None:
        with refused("lookup", "fan-out without merge"):
            with_fanout().check()

    def test_the_last_stage_is_not_optional(self) -> None:
        with refused("a", "cannot be optional"):
            Service.of("demo", [Stage(name="a", optional=True)]).check()

    def test_shape(self) -> None:
        service = with_fanout(idempotent=True, replicas=2)
        service.stage(name="rank", after=[shard_answer])(merge)
        service.check()
        assert service.sources == ("lookup",)
        assert service.sink == "rank"
        assert service.children("lookup") == ("rank",)
        assert service.children("rank") == ()

    def test_equality_is_of_settings_not_of_handlers(self) -> None:
        bare = Service.of("demo", [Stage(name="lookup", fanout=4)])
        assert bare == with_fanout()
        assert hash(bare) == hash(with_fanout())
        assert bare != with_fanout(replicas=2)
        assert bare != Service.of("other", [Stage(name="lookup", fanout=4)])
        assert bare != "demo"


class TestHandlers:
    def test_it_is_a_coroutine_function(self) -> None:
        def plain(request: Any) -> Any:
            return request

        service = Service("demo")
        declare: Any = service.stage(name="a")
        for handler in (plain, print, 5):
            with refused("a", "coroutine function"):
                declare(handler)

    def test_an_unnamed_handler_needs_a_name(self) -> None:
        service = Service("demo")
        with pytest.raises(DefinitionError, match="starts with a letter"):
            service.stage()(functools.partial(answer))
        service.stage(name="a")(functools.partial(answer))
        assert list(service.stages) == ["a"]

    def test_it_takes_one_answer_a_parent(self) -> None:
        async def nothing() -> None: ...
        async def two(one: Any, other: Any) -> None: ...
        async def many(*requests: Any) -> None: ...

        service = Service("demo")
        for handler in (nothing, two, many):
            with refused("a", "positional parameters, not 1", "the request"):
                service.stage(name="a")(handler)
        service.stage(name="a")(answer)
        service.stage(name="b")(answer)
        with refused("c", "takes 1 positional parameters, not 2", "a, b"):
            service.stage(name="c", after=["a", "b"])(answer)
        service.stage(name="c", after=["a", "b"])(two)

    def test_handlers_with_other_keywords_are_refused(self) -> None:
        async def needy(request: Any, *, colour: str) -> None: ...
        async def modest(request: Any, *, colour: str = "red", **rest: Any) -> None: ...

        service = Service("demo")
        with refused("a", "'colour'"):
            service.stage(name="a")(needy)
        service.stage(name="a")(modest)

    def test_a_fanout_takes_its_shard_by_keyword(self) -> None:
        async def by_place(request: Any, shard: int) -> None: ...

        service = Service("demo")
        for handler in (answer, by_place):
            with refused("a", "keyword-only parameter `shard`"):
                service.stage(name="a", fanout=2)(handler)
        with refused("a", "has `shard` but no fanout"):
            service.stage(name="a")(shard_answer)

    def test_a_stage_with_threads_takes_them_by_keyword(self) -> None:
        async def by_place(request: Any, threads: int) -> None: ...
        async def by_name(request: Any, *, threads: int) -> None: ...
        async def both(request: Any, *, shard: int, threads: int) -> None: ...

        service = Service("demo")
        for handler in (answer, by_place):
            with refused("a", "keyword-only parameter `threads`"):
                service.stage(name="a", threads=3)(handler)
        with refused("a", "has `threads` but threads=1"):
            service.stage(name="a")(by_name)
        service.stage(name="a", threads=3)(by_name)
        service.stage(name="b", threads=2, fanout=3)(both)
        assert [service.signature(name).takes_threads for name in "ab"] == [True, True]

    def test_an_unknown_setting_is_named(self) -> None:
        service = Service("demo")
        with refused("a", "no setting 'replcas'"):
            service.stage(name="a", replcas=2)(answer)
        with refused("a", "no setting 'handler'"):
            service.stage(name="a", handler=answer)(answer)
        assert not service.stages

    @pytest.mark.parametrize("hint", [Any, list[int], int, "Partial", Partial[int] | int, None])
    def test_a_fanout_without_merge_is_refused(self, hint: Any) -> None:
        async def takes(hits: Any) -> None: ...

        takes.__annotations__["hits"] = hint if hint != "Partial" else "list[Partial[int]]"
        with refused("rank", "fan-out 'lookup' without merge", "Partial"):
            with_fanout().stage(name="rank", after=["lookup"])(takes)

    @pytest.mark.parametrize("hint", [Partial, Partial[int], Partial[list[str]], Partial[int] | None])
    def test_a_merge_takes_partial(self, hint: Any) -> None:
        async def takes(hits: Any) -> None: ...

        takes.__annotations__["hits"] = hint
        service = with_fanout()
        service.stage(name="rank", after=["lookup"])(takes)
        assert service.signature("rank").inputs == (hint,)

    def test_a_merge_behind_a_partial_function_is_seen(self) -> None:
        async def takes(hits: Partial[int], *, limit: int) -> None: ...

        service = with_fanout()
        service.stage(name="rank", after=["lookup"])(functools.partial(takes, limit=3))
        assert list(service.stages) == ["lookup", "rank"]

    def test_an_unannotated_merge_is_refused(self) -> None:
        async def takes(hits): ...  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202 - the case itself

        with refused("rank", "without merge"):
            with_fanout().stage(name="rank", after=["lookup"])(takes)

    def test_partial_without_a_fanout_is_refused(self) -> None:
        service = Service("demo")
        service.stage(name="a")(answer)
        with refused("rank", "'a' is no fan-out"):
            service.stage(name="rank", after=["a"])(merge)

    def test_what_may_be_missing_must_be_taken_as_missing(self) -> None:
        async def strict(word: str) -> None: ...
        async def relaxed(word: str | None) -> None: ...

        service = Service("demo")
        service.stage(name="a", optional=True)(answer)
        with refused("b", "optional", r"\| None"):
            service.stage(name="b", after=["a"])(strict)
        service.stage(name="b", after=["a"])(relaxed)
        service.stage(name="c", after=["a"])(answer)

    def test_an_optional_fanout_may_be_missing_too(self) -> None:
        async def relaxed(hits: Partial[int] | None) -> None: ...

        service = with_fanout(optional=True)
        with refused("rank", r"\| None"):
            service.stage(name="rank", after=["lookup"])(merge)
        service.stage(name="rank", after=["lookup"])(relaxed)

    def test_unreadable_annotations_are_named(self) -> None:
        async def takes(hits: Any) -> None: ...

        takes.__annotations__["hits"] = "Nowhere[int]"
        with refused("rank", "annotations cannot be read", "Nowhere"):
            with_fanout().stage(name="rank", after=["lookup"])(takes)

    def test_a_refused_stage_leaves_the_service_as_it_was(self) -> None:
        service = with_fanout()
        with pytest.raises(DefinitionError):
            service.stage(name="rank", after=["lookup"])(answer)
        assert list(service.stages) == ["lookup"]
        with pytest.raises(DefinitionError, match="after 'answer'"):
            service.stage(name="next", after=[answer])(answer)

    def test_signature(self) -> None:
        async def typed(query: str, *, shard: int) -> list[int]: ...  # type: ignore[empty-body]
        async def last(hits: Partial[list[int]], words: Any) -> None: ...

        service = Service("demo")
        service.stage(name="a", fanout=2)(typed)
        service.stage(name="b")(answer)
        service.stage(name="c", after=["a", "b"])(last)
        assert service.signature("a").inputs == (str,)
        assert service.signature("a").output == list[int]
        assert service.signature("a").takes_shard
        assert service.signature("c").inputs == (Partial[list[int]], Any)
        assert service.signature("c").output is type(None)

    def test_a_stage_without_handler_has_no_signature(self) -> None:
        with refused("a", "no handler"):
            Service.of("demo", [Stage(name="a")]).signature("a")


class TestPartial:
    def test_missing_shards(self) -> None:
        parts = Partial((1, None, 0), utility=0.7)
        assert parts.present == [1, 0]
        assert not parts.complete
        assert Partial((0, False)).complete
        assert Partial(()).complete
