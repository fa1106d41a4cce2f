"""Guarantees of the words shared by owner and worker, on any machine that supports C11.

First the checker itself, on the patterns from the literature whose verdicts are
known; then the protocols of src/pool/ring.h and channel.h, each also with a change that breaks it:
a missing fence or a weaker order.
"""
import pytest
from memory_model import ACQUIRE, RELAXED, RELEASE, SEQ_CST, allows, fence, increment, load, store

NONE = []  # instead of a fence


def message_passing(publish, consume, before=NONE, after=NONE):
    return [[store("data", 1), *before, store("flag", 1, publish)],
            [load("flag", "flag", consume), *after, load("data", "data")]]


def store_buffering(order_store, order_load, first=NONE, second=NONE):
    return [[store("x", 1, order_store), *first, load("a", "y", order_load)],
            [store("y", 1, order_store), *second, load("b", "x", order_load)]]


def load_buffering(order_load, order_store):
    return [[load("a", "x", order_load), store("y", 1, order_store)],
            [load("b", "y", order_load), store("x", 1, order_store)]]


def independent_reads(order_store, order_load, between=NONE):
    return [[store("x", 1, order_store)], [store("y", 1, order_store)],
            [load("a", "x", order_load), *between, load("b", "y", order_load)],
            [load("c", "y", order_load), *between, load("d", "x", order_load)]]


@pytest.mark.parametrize("expected, program", [
    (True, message_passing(RELAXED, RELAXED)),
    (True, message_passing(RELEASE, RELAXED)),
    (True, message_passing(RELAXED, ACQUIRE)),
    (False, message_passing(RELEASE, ACQUIRE)),
    (False, message_passing(RELAXED, RELAXED, [fence(RELEASE)], [fence(ACQUIRE)])),
    (True, message_passing(RELAXED, RELAXED, [fence(RELEASE)])),
])
def test_checker_knows_message_passing(expected, program):
    assert allows(program, flag=1, data=0) is expected


@pytest.mark.parametrize("expected, program", [
    (True, store_buffering(RELAXED, RELAXED)),
    (True, store_buffering(RELEASE, ACQUIRE)),
    (False, store_buffering(SEQ_CST, SEQ_CST)),
    (False, store_buffering(RELAXED, RELAXED, [fence()], [fence()])),
    (True, store_buffering(RELAXED, RELAXED, [fence()])),
    (True, store_buffering(RELEASE, ACQUIRE, [fence(RELEASE)], [fence(ACQUIRE)])),
])
def test_checker_knows_store_buffering(expected, program):
    assert allows(program, a=0, b=0) is expected


@pytest.mark.parametrize("expected, program", [
    (True, load_buffering(RELAXED, RELAXED)),
    (False, load_buffering(ACQUIRE, RELEASE)),
])
def test_checker_knows_load_buffering(expected, program):
    assert allows(program, a=1, b=1) is expected


@pytest.mark.parametrize("expected, program", [
    (True, independent_reads(RELAXED, RELAXED)),
    (True, independent_reads(RELEASE, ACQUIRE)),
    (False, independent_reads(SEQ_CST, SEQ_CST)),
    (False, independent_reads(RELAXED, RELAXED, [fence()])),
])
def test_checker_knows_independent_reads(expected, program):
    assert allows(program, a=1, b=0, c=1, d=0) is expected


def test_checker_knows_coherence_and_increments():
    two_reads = [[store("x", 1)], [load("a", "x"), load("b", "x")]]
    assert not allows(two_reads, a=1, b=0)
    assert allows(two_reads, a=0, b=1)
    twice = [[increment("x", RELAXED), load("a", "x")], [increment("x", RELAXED), load("b", "x")]]
    assert allows(twice, a=2, b=2)
    assert not allows(twice, a=1, b=1)
    through = [[store("data", 1), store("x", 1, RELEASE)], [increment("x", RELAXED)],
               [load("x", "x", ACQUIRE), load("data", "data")]]
    assert not allows(through, x=2, data=0)


# ---- The protocols ---------------------------------------------------------

def taking_back(consumer_fence, producer=SEQ_CST):
    """ring_take_back() and ring_begin()."""
    return [[store("head", 0, producer), increment("round", producer), load("begun_seen", "begun", producer)],
            [store("begun", 1), *consumer_fence, load("round_seen", "round", ACQUIRE)]]


def test_task_is_begun_or_taken_back_never_both():
    assert not allows(taking_back([fence()]), begun_seen=0, round_seen=0)
    assert allows(taking_back([fence()]), begun_seen=1, round_seen=0)
    assert allows(taking_back([fence()]), begun_seen=0, round_seen=1)
    assert allows(taking_back(NONE), begun_seen=0, round_seen=0)
    assert allows(taking_back([fence()], RELAXED), begun_seen=0, round_seen=0)


def test_worker_that_sees_the_new_round_sees_the_lower_head():
    """begin() reads again after a round has changed: round first, then head."""
    program = [[store("head", 5), store("head", 1, SEQ_CST), increment("round")],
               [load("round", "round", ACQUIRE), load("head", "head", ACQUIRE)]]
    assert not allows(program, round=1, head=5)
    assert allows(program, round=0, head=5)


def falling_asleep(waker_fence, announce=SEQ_CST):
    """channel_wake_worker() and channel_sleep()."""
    return [[store("head", 1, RELEASE), *waker_fence, load("sleeping", "sleeping")],
            [store("sleeping", 1, announce), load("head", "head", announce)]]


def test_worker_that_falls_asleep_is_woken_or_sees_the_task():
    assert not allows(falling_asleep([fence()]), sleeping=0, head=0)
    assert allows(falling_asleep(NONE), sleeping=0, head=0)
    assert allows(falling_asleep([fence()], RELAXED), sleeping=0, head=0)


def arming(owner_fence, worker_fence):
    """arm(), and show() with worker_notify()."""
    return [[store("armed", 1), *owner_fence, load("head", "head")],
            [store("head", 1, RELEASE), *worker_fence, load("armed", "armed")]]


def test_owner_that_falls_asleep_is_notified_or_sees_the_answer():
    assert not allows(arming([fence()], [fence()]), head=0, armed=0)
    assert allows(arming(NONE, [fence()]), head=0, armed=0)
    assert allows(arming([fence()], NONE), head=0, armed=0)


def test_answer_before_the_next_beginning_needs_no_fence_of_its_own():
    """show_at_end() leaves the fence to ring_begin()."""
    program = [[store("armed", 1), fence(), load("head", "head")],
               [store("head", 1, RELEASE), store("begun", 1), fence(), load("round", "round", ACQUIRE),
                load("armed", "armed")]]
    assert not allows(program, head=0, armed=0)


def test_either_the_wait_or_the_room_is_seen():
    """wait_for_room() and release()."""
    program = [[store("consumed", 1, SEQ_CST), fence(), load("wanted", "wanted", SEQ_CST)],
               [store("wanted", 1, SEQ_CST), load("consumed", "consumed", SEQ_CST)]]
    assert not allows(program, wanted=0, consumed=0)


@pytest.mark.parametrize("publish, expected", [(RELEASE, False), (RELAXED, True)])
def test_record_is_whole_when_its_count_is_seen(publish, expected):
    program = [[store("desc", 1), store("payload", 1), store("head", 1, publish)],
               [load("head", "head", ACQUIRE), load("desc", "desc"), load("payload", "payload")]]
    assert (allows(program, head=1, desc=0) or allows(program, head=1, payload=0)) is expected


@pytest.mark.parametrize("publish, expected", [(RELEASE, False), (RELAXED, True)])
def test_answer_after_a_timeout_is_recognized(publish, expected):
    """The warden's word has no memory order of its own: a worker that has seen it publishes it with its answer."""
    program = [[store("timed_out", 1)],
               [load("worker", "timed_out"), store("head", 1, publish)],
               [load("head", "head", ACQUIRE), load("owner", "timed_out")]]
    assert allows(program, worker=1, head=1, owner=0) is expected


@pytest.mark.parametrize("order, expected", [(SEQ_CST, False), (RELAXED, True)])
def test_warden_counts_no_answer_twice(order, expected):
    """count_ended(): completed is stored before consumed, and loaded after it."""
    program = [[store("completed", 1), store("consumed", 1, order)],
               [load("consumed", "consumed", order), load("completed", "completed", order)]]
    assert allows(program, consumed=1, completed=0) is expected
