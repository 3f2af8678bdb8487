// Enqueues from Node with pg: in the transaction that keeps the order.

const { Client } = require("pg");

// snippet: order
/** The order and its event, both or neither. Returns the event's id and whether it had been enqueued before. */
async function placeOrder(client, order, total) {
    await client.query("begin");
    try {
        await client.query("insert into orders (id, total) values ($1, $2)", [order, total]);
        const event = await enqueuePlaced(client, order, total);
        await client.query("commit");
        return event;
    } catch (error) {
        await client.query("rollback");
        throw error;
    }
}

async function enqueuePlaced(client, order, total) {
    const payload = JSON.stringify({ order, total, text: "grüße" });
    const answer = await client.query(
        "select id, duplicate from posthaste.enqueue(topic => 'orders', event_type => 'order.placed'," +
            " key => $1, dedupe_key => $2, payload => $3)",
        [order, `placed/${order}`, payload],
    );
    return answer.rows[0];
}
// end snippet

// snippet: bytes
/** Bytes of any kind, with a media type and headers. */
async function enqueueBytes(client, body) {
    const answer = await client.query(
        "select id, duplicate from posthaste.enqueue(topic => 'files', payload_bytes => $1," +
            " content_type => 'application/x-two', headers => $2)",
        [body, JSON.stringify({ Trace: "t-1" })],
    );
    return answer.rows[0];
}
// end snippet

function say(name, more) {
    console.log(JSON.stringify({ case: name, ...more }));
}

async function main() {
    const client = new Client({ connectionString: process.argv[2] });
    await client.connect();
    say("commit", await placeOrder(client, "o-1", 12));
    say("again", await enqueuePlaced(client, "o-1", 12));
    await client.query("begin");
    await client.query("insert into orders (id, total) values ('o-2', 30)");
    await enqueuePlaced(client, "o-2", 30);
    await client.query("rollback");
    say("bytes", await enqueueBytes(client, Buffer.from([0x00, 0xff])));
    // snippet: refused
    try {
        await client.query("select posthaste.enqueue(topic => '', payload => '{}')");
    } catch (error) {
        say("refused", { sqlstate: error.code, message: error.message });
    }
    // end snippet
    await client.end();
}

main().catch((error) => {
    console.error(error);
    process.exit(1);
});
