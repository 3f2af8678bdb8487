// graphile-worker: a job per message, deleted when it is done.

import pg from "pg";
import { Stopwatch, TOPIC, bulk, counter, main, producers, rate } from "./protocol.mjs";

// Its line of log per job would be measured too; it is read when the module is loaded.
process.env.NO_LOG_SUCCESS = "1";
const { Logger, makeWorkerUtils, run } = await import("graphile-worker");

/** Errors go to stderr, everything else nowhere. */
const logger = new Logger(() => (level, text) => {
  if (level === "error") process.stderr.write(`${text}\n`);
});

/** A backlog: jobs are fetched 500 at a time and completed together, as its page on performance advises. */
const BACKLOG = { concurrentJobs: 24, localQueue: { size: 500 }, completeJobBatchDelay: 0, failJobBatchDelay: 0 };

/** A trickle: each worker fetches for itself as soon as it is notified; a local queue would only add a hop. */
const TRICKLE = { concurrentJobs: 8 };

const POOL = 10;

function preset(connectionString, settings = {}) {
  return { worker: { connectionString, maxPoolSize: POOL, ...settings } };
}

async function utils(url, settings) {
  const utils = await makeWorkerUtils({ preset: preset(url, settings), logger });
  await utils.migrate();
  return utils;
}

function worker(url, settings, handle) {
  return run({
    preset: preset(url, settings),
    logger,
    noHandleSignals: true,
    taskList: { [TOPIC]: handle },
    parsedCronItems: [],
  });
}

async function query(url, sql) {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    return (await client.query(sql)).rows;
  } finally {
    await client.end();
  }
}

async function nothingLeft(url) {
  const [{ left }] = await query(url, "select count(*)::int as left from graphile_worker._private_jobs");
  if (left > 0) throw new Error(`${left} jobs are left`);
}

async function load(url, count) {
  const queue = await utils(url);
  const answer = await bulk(count, (messages) =>
    queue.addJobs(messages.map((payload) => ({ identifier: TOPIC, payload }))),
  );
  await queue.release();
  await query(url, "analyze");
  return answer;
}

async function drain(url, count) {
  const { all, handle } = counter(count);
  const start = performance.now();
  const runner = await worker(url, BACKLOG, handle);
  await all;
  await runner.stop(); // returns once the last batch of completions is in the database
  const answer = rate(count, start);
  await nothingLeft(url);
  return answer;
}

async function enqueue(url, connections, seconds) {
  const queue = await utils(url, { maxPoolSize: Math.max(2, connections) });
  const answer = await producers(connections, seconds, (payload) => queue.addJob(TOPIC, payload));
  await queue.release();
  return answer;
}

async function latency(url, perSecond, seconds) {
  const queue = await utils(url);
  const watch = new Stopwatch();
  const runner = await worker(url, TRICKLE, (payload) => watch.handle(payload));
  const answer = await watch.run(perSecond, seconds, (payload) => queue.addJob(TOPIC, payload));
  await runner.stop();
  await queue.release();
  await nothingLeft(url);
  return answer;
}

await main({ load, drain, enqueue, latency });
