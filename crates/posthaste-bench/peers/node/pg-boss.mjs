// pg-boss: a job per message, kept as completed.

import { PgBoss } from "pg-boss";
import { Stopwatch, TOPIC, bulk, counter, main, producers, rate } from "./protocol.mjs";

/** A backlog: large batches, and no pause while they come back full. */
const BACKLOG = { batchSize: 500, localConcurrency: 4, pollingIntervalSeconds: 0.5, burstWhenBatchFull: true };

/** A trickle: workers that a notification wakes. */
const TRICKLE = { batchSize: 50, localConcurrency: 4, pollingIntervalSeconds: 0.5 };

/** Its queues stay silent unless asked; a queue whose latency matters is asked. `--no-notify` measures the default. */
const NOTIFY = !process.argv.includes("--no-notify");

async function start(url, options = {}) {
  const boss = new PgBoss({ connectionString: url, schedule: false, ...options });
  boss.on("error", (error) => process.stderr.write(`${error.message}\n`));
  await boss.start();
  await boss.createQueue(TOPIC, { notify: NOTIFY });
  return boss;
}

async function nothingLeft(boss) {
  const sql = "select count(*)::int as left from pgboss.job where name = $1 and state <> 'completed'";
  const [{ left }] = (await boss.getDb().executeSql(sql, [TOPIC])).rows;
  if (left > 0) throw new Error(`${left} jobs are left`);
}

async function load(url, count) {
  const boss = await start(url);
  const answer = await bulk(count, (messages) => boss.insert(TOPIC, messages.map((data) => ({ data }))));
  await boss.getDb().executeSql("analyze");
  await boss.stop();
  return answer;
}

async function drain(url, count) {
  const { all, handle } = counter(count);
  const boss = await start(url);
  const started = performance.now();
  await boss.work(TOPIC, BACKLOG, async (jobs) => jobs.forEach((job) => handle(job.data)));
  await all;
  await boss.offWork(TOPIC, { wait: true }); // returns once the last batch is completed in the database
  const answer = rate(count, started);
  await nothingLeft(boss);
  await boss.stop();
  return answer;
}

async function enqueue(url, connections, seconds) {
  const boss = await start(url, { max: connections });
  const answer = await producers(connections, seconds, (data) => boss.send(TOPIC, data));
  await boss.stop();
  return answer;
}

async function latency(url, perSecond, seconds) {
  const consumer = await start(url, { useListenNotify: true });
  const producer = await start(url);
  const watch = new Stopwatch();
  await consumer.work(TOPIC, TRICKLE, async (jobs) => jobs.forEach((job) => watch.handle(job.data)));
  const answer = await watch.run(perSecond, seconds, (data) => producer.send(TOPIC, data));
  await consumer.offWork(TOPIC, { wait: true });
  await nothingLeft(producer);
  await Promise.all([consumer.stop(), producer.stop()]);
  return answer;
}

await main({ load, drain, enqueue, latency });
