"""Enqueues from Python with psycopg: in the transaction that keeps the order."""

import json
import sys

import psycopg


# snippet: order
def place_order(connection, order, total):
    """The order and its event, both or neither. Returns the event's id and whether it had been enqueued before."""
    with connection.transaction():
        connection.execute("insert into orders (id, total) values (%s, %s)", (order, total))
        return enqueue_placed(connection, order, total)


def enqueue_placed(connection, order, total):
    payload = json.dumps({"order": order, "total": total, "text": "grüße"}, ensure_ascii=False)
    return connection.execute(
        "select id, duplicate from posthaste.enqueue(topic => 'orders', event_type => 'order.placed',"
        " key => %s, dedupe_key => %s, payload => %s)",
        (order, f"placed/{order}", payload),
    ).fetchone()
# end snippet


# snippet: bytes
def enqueue_bytes(connection, body):
    """Bytes of any kind, with a media type and headers."""
    with connection.transaction():
        return connection.execute(
            "select id, duplicate from posthaste.enqueue(topic => 'files', payload_bytes => %s,"
            " content_type => 'application/x-two', headers => %s)",
            (body, json.dumps({"Trace": "t-1"})),
        ).fetchone()
# end snippet


def say(case, event=None, **more):
    answer = {"id": str(event[0]), "duplicate": event[1]} if event else {}
    print(json.dumps({"case": case, **answer, **more}))


with psycopg.connect(sys.argv[1], autocommit=True) as connection:
    say("commit", place_order(connection, "o-1", 12))
    with connection.transaction():
        say("again", enqueue_placed(connection, "o-1", 12))
    with connection.transaction() as transaction:
        place_order(connection, "o-2", 30)
        raise psycopg.Rollback(transaction)
    say("bytes", enqueue_bytes(connection, b"\x00\xff"))
    # snippet: refused
    try:
        with connection.transaction():
            connection.execute("select posthaste.enqueue(topic => '', payload => '{}')")
    except psycopg.errors.InvalidParameterValue as error:
        say("refused", sqlstate=error.sqlstate, message=error.diag.message_primary)
    # end snippet
