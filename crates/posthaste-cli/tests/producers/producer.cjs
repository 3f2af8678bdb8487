// Writes orders and their events, each pair in one transaction, and prints what it committed.

const { Client } = require("pg");

const [url, prefix, count, keys] = [process.argv[2], process.argv[3], Number(process.argv[4]), Number(process.argv[5])];

async function main() {
    const client = new Client({ connectionString: url });
    await client.connect();
    for (let n = 0; n < count; n++) {
        const key = `${prefix}-${n % keys}`;
        const payload = JSON.stringify({ from: "node", n, text: "grüße" });
        await client.query("begin");
        await client.query("insert into orders (key, n) values ($1, $2)", [key, n]);
        const answer = await client.query(
            "select id, duplicate from posthaste.enqueue(" +
                "topic => 'orders', event_type => 'order.created', key => $1, payload => $2)",
            [key, payload],
        );
        await client.query("commit");
        console.log(JSON.stringify({ id: answer.rows[0].id, key, payload }));
    }
    await client.end();
}

main().catch((error) => {
    console.error(error);
    process.exit(1);
});
