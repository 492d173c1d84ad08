"""A client of a Kafka broker that is independent of the one under test: does what it is told, one JSON object per line, and answers likewise.

The argument is the broker, HOST:PORT. Ends when standard input does.
"""

import base64
import json
import sys
import time

from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewPartitions, NewTopic, OffsetSpec

SERVERS = sys.argv[1]
PATIENCE = 30


# Kept: what one was asked ends with it.
ADMIN = AdminClient({"bootstrap.servers": SERVERS})
KEPT = []


def admin():
    return ADMIN


def done(futures):
    for future in futures.values():
        future.result(PATIENCE)


def create(topic, partitions=1, config=None):
    done(admin().create_topics([NewTopic(topic, partitions, 1, config=config or {})]))
    # Until every broker knows it.
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        known = admin().list_topics(topic, timeout=PATIENCE).topics[topic]
        if known.error is None and len(known.partitions) == partitions:
            return
        time.sleep(0.05)


def delete(topic):
    done(admin().delete_topics([topic]))


def grow(topic, partitions):
    done(admin().create_partitions([NewPartitions(topic, partitions)]))


def trim(topic, partition, before):
    done(admin().delete_records([TopicPartition(topic, partition, before)]))


def alter(topic, config):
    entries = [ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in config.items()]
    done(admin().incremental_alter_configs([ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=entries)]))


def binary(text):
    return None if text is None else base64.b64decode(text)


def header_name(name):
    return binary(name["base64"]) if isinstance(name, dict) else name


def produce(topic, messages, transaction=None):
    """Messages are [partition, key, value, headers, milliseconds]; the last two may be left out. The name of a header is text, or {"base64": …}. A
    transaction ends as "commit" or "abort", or is left "open"."""
    config = {"bootstrap.servers": SERVERS, "message.max.bytes": 16 << 20, "linger.ms": 5, "queue.buffering.max.kbytes": 1 << 20}
    if transaction:
        config["transactional.id"] = f"tests-{topic}-{time.monotonic_ns()}"
    producer = Producer(config)
    if transaction:
        producer.init_transactions(PATIENCE)
        producer.begin_transaction()
    failed = []

    def told(error, _):
        if error is not None:
            failed.append(str(error))

    for partition, key, value, *more in messages:
        headers = [(header_name(name), binary(header)) for name, header in more[0]] if more and more[0] else None
        at = {"timestamp": more[1]} if len(more) > 1 else {}
        while True:
            try:
                producer.produce(topic, binary(value), binary(key), partition, on_delivery=told, headers=headers, **at)
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush(PATIENCE)
    if failed:
        raise RuntimeError(failed[0])
    if transaction == "commit":
        producer.commit_transaction(PATIENCE)
        wait_for_markers(topic)
    elif transaction == "abort":
        producer.abort_transaction(PATIENCE)
        wait_for_markers(topic)
    elif transaction == "open":
        KEPT.append(producer)


def wait_for_markers(topic):
    """They are written after the end of a transaction was acknowledged."""
    partitions = [TopicPartition(topic, number) for number in ADMIN.list_topics(topic, timeout=PATIENCE).topics[topic].partitions]
    until = time.monotonic() + PATIENCE
    for partition in partitions:

        def end(isolation):
            asked = ADMIN.list_offsets({partition: OffsetSpec.latest()}, isolation_level=isolation)
            return asked[partition].result(PATIENCE).offset

        while end(IsolationLevel.READ_COMMITTED) < end(IsolationLevel.READ_UNCOMMITTED) and time.monotonic() < until:
            time.sleep(0.02)


def ends(topic):
    """The first offset of each partition, and the one behind the last message. The leaders of a new topic may not know it yet."""
    until = time.monotonic() + PATIENCE
    while True:
        try:
            return ends_now(topic)
        except KafkaException:
            if time.monotonic() > until:
                raise
            time.sleep(0.1)


def ends_now(topic):
    partitions = [TopicPartition(topic, number) for number in admin().list_topics(topic, timeout=PATIENCE).topics[topic].partitions]
    asked = admin()
    found = []
    for partition in partitions:
        low = asked.list_offsets({partition: OffsetSpec.earliest()})[partition].result(PATIENCE).offset
        high = asked.list_offsets({partition: OffsetSpec.latest()})[partition].result(PATIENCE).offset
        found.append([low, high])
    return found


def committed(group, topic):
    """What a group committed, by partition; null where it committed nothing."""
    numbers = sorted(admin().list_topics(topic, timeout=PATIENCE).topics[topic].partitions)
    asked = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, number) for number in numbers])
    found = admin().list_consumer_group_offsets([asked])[group].result(PATIENCE).topic_partitions
    return [partition.offset if partition.offset >= 0 else None for partition in sorted(found, key=lambda one: one.partition)]


def commit(group, topic, partition, offset):
    asked = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, partition, offset)])
    # A group that has members refuses it, partition by partition.
    for done in admin().alter_consumer_group_offsets([asked])[group].result(PATIENCE).topic_partitions:
        if done.error is not None:
            raise RuntimeError(str(done.error))


def members(group):
    """How many members a group has, and how many partitions each."""
    found = admin().describe_consumer_groups([group])[group].result(PATIENCE)
    return sorted(len(member.assignment.topic_partitions) for member in found.members)


def groups():
    return sorted(group.group_id for group in admin().list_consumer_groups().result(PATIENCE).valid)


def text(data):
    return None if data is None else base64.b64encode(data).decode()


def read(topic):
    """All messages: [partition, offset, key, value, [[name, value]…]], partition by partition."""
    consumer = Consumer({"bootstrap.servers": SERVERS, "group.id": "tests", "enable.auto.commit": False})
    found = []
    for number, (low, high) in enumerate(ends(topic)):
        consumer.assign([TopicPartition(topic, number, low)])
        while low < high:
            message = consumer.poll(PATIENCE)
            if message is None or message.error() is not None:
                raise RuntimeError(str(message and message.error()))
            headers = [[name, text(value)] for name, value in message.headers() or []]
            found.append([number, message.offset(), text(message.key()), text(message.value()), headers])
            low = message.offset() + 1
    consumer.close()
    return found


def topics():
    return sorted(admin().list_topics(timeout=PATIENCE).topics)


DOES = {
    "topics": topics,
    "create": create,
    "delete": delete,
    "grow": grow,
    "alter": alter,
    "read": read,
    "trim": trim,
    "produce": produce,
    "ends": ends,
    "committed": committed,
    "commit": commit,
    "members": members,
    "groups": groups,
}

for line in sys.stdin:
    asked = json.loads(line)
    try:
        answer = {"ok": DOES[asked.pop("do")](**asked)}
    except Exception as error:  # whatever it is, the test shows it
        answer = {"error": f"{type(error).__name__}: {error}"}
    print(json.dumps(answer), flush=True)
