"""A broker that becomes silent during a commit: only ``open`` shows whether it took effect.

Not covered: a request that arrives after its writer's successor has opened (see the suite).
"""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from rstream.errors import MissingSecretError, OperatingError
from rvertex.sinks.errors import InvalidSinkError
from rvertex.sinks.kafka import client
from rvertex.sinks.spec import KafkaMode, KafkaSink
from tests.rvertex.sinks.kafka.places import BROKERS, KafkaPlace
from tests.rvertex.sinks.places import SCHEMA, expected, items, progress

if TYPE_CHECKING:
    from tests.support.brokers import Broker

pytestmark = pytest.mark.slow
#: Rounds, and those after which one must have been cut.
ROUNDS, ROUNDS_MAX = 6, 60
STEP = 5
FROZEN_S_MAX, ANSWER_S = 60.0, 20.0


@pytest.mark.parametrize("mode", ["transactions", "headers"])
def test_the_broker_freezes_at_any_moment_of_a_commit(
    own_broker: Broker, mode: KafkaMode, monkeypatch: pytest.MonkeyPatch
) -> None:
    BROKERS[own_broker.servers] = own_broker
    topic = own_broker.create_topic("t", 2)
    place = KafkaPlace(KafkaSink(topic, own_broker.servers, mode=mode))
    destination = place.destination(0)
    destination.open(1)
    next_seq, unknown = 0, 0
    for number in range(ROUNDS_MAX):
        if number >= ROUNDS and unknown:
            break
        destination.write(items(0, next_seq, next_seq + STEP))
        monkeypatch.setattr(client, "ANSWER_WAIT_S", 1.0)
        timer = threading.Timer(number % ROUNDS * 4e-4, own_broker.freeze)
        limit = threading.Timer(FROZEN_S_MAX, own_broker.thaw)
        timer.start()
        limit.start()
        try:
            destination.commit(progress(0, next_seq + STEP))
        except OperatingError:
            unknown += 1
        # The client's own call limits have no effect: it would wait as long as a broker is silent.
        assert not limit.finished.is_set()
        timer.join()
        limit.cancel()
        own_broker.thaw()
        monkeypatch.setattr(client, "ANSWER_WAIT_S", ANSWER_S)
        found = destination.open(1)
        assert found in (None, progress(0, next_seq), progress(0, next_seq + STEP))
        next_seq = 0 if found is None else found.next_seq
    destination.write(items(0, next_seq, next_seq + STEP))
    destination.commit(progress(0, next_seq + STEP))
    destination.close()
    assert unknown, "no commit was cut"
    assert place.rows() == expected(0, next_seq + STEP)


def test_errors_that_need_a_person_say_what_to_do(broker: Broker) -> None:
    wrong = KafkaSink("t", "env:STREAMSCOPE_NO_SUCH")
    with pytest.raises(MissingSecretError, match="STREAMSCOPE_NO_SUCH"):
        KafkaPlace(wrong).destination(0).open(1)
    unknown = KafkaSink("t", broker.servers, config=(("no.such.setting", "1"),))
    with pytest.raises(InvalidSinkError, match="no\\.such\\.setting"):
        KafkaPlace(unknown).destination(0).open(1)


def test_arrow_records_contain_many_rows(broker: Broker, topic: str) -> None:
    place = KafkaPlace(KafkaSink(topic, broker.servers, format="arrow"))
    destination = place.destination(1, SCHEMA)
    destination.open(1)
    destination.write(items(1, 0, 20))
    destination.commit(progress(1, 20))
    destination.close()
    (record,) = broker.read_committed(topic)
    with pa.ipc.open_stream(record.value) as reader:
        assert reader.read_all().to_pylist() == expected(1, 20)
    assert record.partition == 1


def test_rows_of_a_key_stay_in_order(broker: Broker, topic: str) -> None:
    """A text key is sent unchanged, several columns as an object; rows of a key stay in order."""
    for key, first in ((("word",), b"w1"), (("part", "n"), b'{"part":0,"n":1}')):
        name = broker.create_topic(f"{topic}-{len(key)}", 2)
        place = KafkaPlace(KafkaSink(name, broker.servers, key=key))
        destination = place.destination(0)
        destination.open(1)
        destination.write(items(0, 0, 40))
        destination.commit(progress(0, 40))
        destination.close()
        records = broker.read_committed(name)
        assert first in {record.key for record in records}
        for partition in (0, 1):
            numbers = [json.loads(r.value or b"")["n"] for r in records if r.partition == partition]
            assert numbers == sorted(numbers)
            assert numbers
