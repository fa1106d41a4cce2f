"""Enumerates all executions of a small program of C11 atomics, under the RC11 model.

    outcomes([[store("x", 1), load("a", "y")], [store("y", 1), load("b", "x")]])

returns the set of final register values, each as a frozenset of pairs (name, value).
The model is that of Lahav et al., "Repairing Sequential Consistency in C/C++11"
(PLDI 2017), without its ban on load buffering, so this checker allows more than the compiler and
ARMv8 do, never less: executions that it forbids cannot happen.

Programs are straight lines of loads, stores, increments and fences on atomic
words that are 0 at first. An execution is a choice of the store that each load
reads from and of an order of the stores to each word; it counts if it is consistent.
"""
import itertools
from collections import namedtuple

RELAXED, ACQUIRE, RELEASE, SEQ_CST = "relaxed", "acquire", "release", "seq_cst"
Op = namedtuple("Op", "kind word value register order")
Event = namedtuple("Event", "number thread kind word value register order")


def store(word, value, order=RELAXED):
    return Op("store", word, value, None, order)


def load(register, word, order=RELAXED):
    return Op("load", word, None, register, order)


def increment(word, order=SEQ_CST):
    return Op("increment", word, None, None, order)


def fence(order=SEQ_CST):
    return Op("fence", None, None, None, order)


def reads(e):
    return e.kind in ("load", "increment")


def writes(e):
    return e.kind in ("init", "store", "increment")


def acquires(e):
    return e.order in (ACQUIRE, SEQ_CST)


def releases(e):
    return e.order in (RELEASE, SEQ_CST)


def join(*relations):
    """The composition of relations: a to b in the first, b to c in the second, …"""
    result = relations[0]
    for relation in relations[1:]:
        successors = {}
        for a, b in relation:
            successors.setdefault(a, []).append(b)
        result = {(a, c) for a, b in result for c in successors.get(b, ())}
    return result


def closure(relation):
    result = set(relation)
    while True:
        more = join(result, result) - result
        if not more:
            return result
        result |= more


def acyclic(relation):
    return all(a != b for a, b in closure(relation))


def events_of(program):
    words = sorted({op.word for thread in program for op in thread if op.word})
    events = [Event(i, None, "init", word, 0, None, RELAXED) for i, word in enumerate(words)]
    for number, thread in enumerate(program):
        for op in thread:
            events.append(Event(len(events), number, op.kind, op.word, op.value, op.register, op.order))
    return events


def sequenced(events):
    """Program order; initial stores come before everything."""
    return {(a.number, b.number) for a in events for b in events
            if a.number < b.number and (a.kind == "init" or a.thread == b.thread) and b.kind != "init"}


def synchronized(events, sb, rf):
    """From a release to the acquire that reads from its release sequence, with or without fences."""
    increments = {e.number for e in events if e.kind == "increment"}
    through = {(a, b) for a, b in rf if b in increments}  # a release sequence continues through increments
    same = {(e.number, e.number) for e in events}
    reach = join(same | closure(through), rf)
    result = set()
    for w, r in reach:
        sources = [w] if releases(events[w]) else []
        sources += [f for f, x in sb if x == w and events[f].kind == "fence" and releases(events[f])]
        targets = [r] if acquires(events[r]) else []
        targets += [f for x, f in sb if x == r and events[f].kind == "fence" and acquires(events[f])]
        result |= set(itertools.product(sources, targets))
    return result


def partial_sc(events, sb, hb, mo, fr, eco):
    """The order that all seq_cst events must obey, as RC11 defines it."""
    def word(pair):
        return events[pair[0]].word, events[pair[1]].word
    same = {(e.number, e.number) for e in events}
    fences = {(e.number, e.number) for e in events if e.kind == "fence" and e.order == SEQ_CST}
    accesses = {(e.number, e.number) for e in events if e.kind != "fence" and e.order == SEQ_CST}
    elsewhere = {p for p in sb if word(p)[0] is None or word(p)[0] != word(p)[1]}
    here = {p for p in hb if word(p)[0] is not None and word(p)[0] == word(p)[1]}
    scb = sb | join(elsewhere, hb, elsewhere) | here | mo | fr
    before = accesses | fences | join(fences, hb | same)
    after = accesses | fences | join(hb | same, fences)
    return join(before, scb, after) | join(fences, hb | join(hb, eco, hb), fences)


def consistent(events, sb, rf, mo):
    source = {r: w for w, r in rf}
    fr = {(r, later) for r, w in source.items() for a, later in mo if a == w and later != r}
    for e in events:  # an increment reads the store directly before it
        if e.kind == "increment":
            before = [a for a, b in mo if b == e.number]
            if max(before, key=lambda a: sum((x, a) in mo for x in before)) != source[e.number]:
                return False
    hb = closure(sb | synchronized(events, sb, rf))
    if any(a == b for a, b in hb):
        return False
    eco = closure(rf | mo | fr)
    if any((b, a) in eco for a, b in hb) or any(a == b for a, b in eco):
        return False
    return acyclic(partial_sc(events, sb, hb, mo, fr, eco))


def values_of(events, rf):
    """The value that each event reads or writes; None if increments depend on themselves."""
    source = {r: w for w, r in rf}
    values = {e.number: e.value for e in events if e.kind in ("init", "store")}
    for _ in events:
        for e in events:
            if reads(e) and source[e.number] in values:
                values[e.number] = values[source[e.number]] + (e.kind == "increment")
    return values if all(e.number in values for e in events if e.kind != "fence") else None


def orders_of(events):
    """Every order of the stores to each word, the initial one first, as relations."""
    by_word = {}
    for e in events:
        if writes(e):
            by_word.setdefault(e.word, []).append(e.number)
    choices = []
    for initial, *others in by_word.values():
        choices.append([set(itertools.combinations([initial, *order], 2)) for order in itertools.permutations(others)])
    for choice in itertools.product(*choices):
        yield set().union(*choice)


def outcomes(program):
    events = events_of(program)
    sb = sequenced(events)
    readers = [e for e in events if reads(e)]
    sources = [[w.number for w in events if writes(w) and w.word == r.word and w != r] for r in readers]
    found = set()
    for choice in itertools.product(*sources):
        rf = {(w, r.number) for w, r in zip(choice, readers)}
        values = values_of(events, rf)
        if values is None:
            continue
        result = frozenset((e.register, values[e.number]) for e in readers if e.register)
        if result not in found and any(consistent(events, sb, rf, mo) for mo in orders_of(events)):
            found.add(result)
    return found


def allows(program, **registers):
    """Whether some execution ends with these values."""
    return any(set(registers.items()) <= result for result in outcomes(program))
