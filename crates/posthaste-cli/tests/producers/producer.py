"""Writes orders and their events, each pair in one transaction, and prints what it committed."""

import json
import sys

import psycopg

url, prefix, count, keys = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])

with psycopg.connect(url) as connection:
    for n in range(count):
        key = f"{prefix}-{n % keys}"
        payload = json.dumps({"from": "python", "n": n, "text": "grüße"}, ensure_ascii=False)
        with connection.transaction():
            connection.execute("insert into orders (key, n) values (%s, %s)", (key, n))
            event = connection.execute(
                "select id, duplicate from posthaste.enqueue("
                "topic => 'orders', event_type => 'order.created', key => %s, payload => %s)",
                (key, payload),
            ).fetchone()
        print(json.dumps({"id": str(event[0]), "key": key, "payload": payload}))
