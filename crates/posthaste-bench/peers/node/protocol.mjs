// What every peer has in common: the message, the four verbs, the one line of JSON.
//
// Nothing here knows a queue or a database; a peer hands in a function per verb.

import { setTimeout as sleep } from "node:timers/promises";

export const TOPIC = "orders";

/** The bytes of a message as JSON text. */
const PAYLOAD = 210;

/** How many messages one bulk insert holds. */
const BULK = 1000;

/** How long, in milliseconds, a peer may go without handling anything that is there. */
const PATIENCE = 30_000;

/** How many messages a latency run sends before it counts. */
const WARMUP = 40;

/** As the peers ask for it; an older one starts them and then fails somewhere in the middle. */
const NODE = [22, 18];

/** A message whose JSON text has exactly 210 bytes; the same text as Posthaste's own events. */
export function message(order) {
  const customer = `customer-${order % 977}`;
  const around = `{"order":${order},"customer":"${customer}","note":""}`.length;
  return { order, customer, note: "x".repeat(Math.max(0, PAYLOAD - around)) };
}

/** Runs the verb of the command line. `verbs` maps load, drain, enqueue and latency to functions; flags are the peer's. */
export async function main(verbs) {
  const [verb, url, ...numbers] = process.argv.slice(2).filter((argument) => !argument.startsWith("--"));
  try {
    checkNode();
    if (!Object.hasOwn(verbs, verb)) {
      complain(3, `the verb \`${verb}\` is not known here: one of ${Object.keys(verbs).join(", ")}`);
    }
    if (!/^postgres(ql)?:\/\//.test(url)) throw new Error(`expected a postgres:// URL, got \`${url}\``);
    const answer = await verbs[verb](url, ...numbers.map(positive));
    process.stdout.write(`${JSON.stringify(answer)}\n`, () => process.exit(0));
  } catch (error) {
    complain(1, `${verb}: ${error.message}`);
  }
}

function checkNode() {
  const [major, minor] = process.versions.node.split(".").map(Number);
  if (major < NODE[0] || (major === NODE[0] && minor < NODE[1])) {
    throw new Error(`Node.js ${NODE.join(".")} or newer is needed, this is ${process.versions.node}`);
  }
}

function positive(text) {
  const number = Number(text);
  if (!Number.isSafeInteger(number) || number < 1) throw new Error(`expected a positive number, got \`${text}\``);
  return number;
}

function complain(code, sentence) {
  process.stderr.write(`${sentence}\n`);
  process.exit(code);
}

/** Calls `insert` with messages 0 to `count`, a thousand at a time. */
export async function bulk(count, insert) {
  for (let first = 0; first < count; first += BULK) {
    const length = Math.min(BULK, count - first);
    await insert(Array.from({ length }, (_, place) => message(first + place)));
  }
  return { count };
}

/** Counts what the handler gets, and tells when `count` of them have come; fails when nothing more comes. */
export function counter(count) {
  const seen = Promise.withResolvers();
  let [handled, before] = [0, 0];
  const watch = setInterval(() => {
    if (handled === before) seen.reject(new Error(`stopped after ${handled} of ${count} messages`));
    before = handled;
  }, PATIENCE);
  return {
    all: seen.promise.finally(() => clearInterval(watch)),
    handle(payload) {
      if (typeof payload.order !== "number") throw new Error(`not a message: ${JSON.stringify(payload)}`);
      handled += 1;
      if (handled === count) seen.resolve();
    },
  };
}

/** Messages per second since `start`. */
export function rate(count, start) {
  return { rate: (count * 1000) / (performance.now() - start) };
}

/** As many loops as there are connections, each with one single-row transaction at a time. */
export async function producers(connections, seconds, send) {
  const numbers = Array.from({ length: connections }, (_, place) => place);
  await Promise.all(numbers.map((number) => send(message(number)))); // opens the connections
  const start = performance.now();
  const end = start + seconds * 1000;
  let sent = 0;
  await Promise.all(
    numbers.map(async () => {
      while (performance.now() < end) {
        await send(message(sent));
        sent += 1;
      }
    }),
  );
  return rate(sent, start);
}

/**
 * Commits one message at a time at a fixed pace, and notes when each commit returned and when each handler began.
 *
 * The pace is that of a clock: after a slow commit the next ones catch up. Before it counts, a few messages open the
 * connections on both sides; their numbers follow those that count.
 */
export class Stopwatch {
  #committed = [];
  #handled = [];

  /** To be called first thing in the handler. */
  handle(payload) {
    this.#handled[payload.order] ??= performance.now();
  }

  async run(perSecond, seconds, send) {
    const total = perSecond * seconds;
    await this.#pace(perSecond, total, total + WARMUP, send);
    await this.#pace(perSecond, 0, total, send);
    return this.#answer(total);
  }

  async #pace(perSecond, first, end, send) {
    const start = performance.now();
    for (let order = first; order < end; order += 1) {
      const wait = start + ((order - first) * 1000) / perSecond - performance.now();
      if (wait > 0) await sleep(wait);
      await send(message(order));
      this.#committed[order] = performance.now();
    }
    await this.#until(first, end);
  }

  /** Until all have been handled. */
  async #until(first, end) {
    const deadline = performance.now() + PATIENCE;
    for (let order = first; order < end; ) {
      if (this.#handled[order] !== undefined) order += 1;
      else if (performance.now() > deadline) throw new Error(`message ${order} of ${end} was not handled`);
      else await sleep(5);
    }
  }

  /** A handler that was quicker than the answer to the commit counts as zero. */
  #answer(total) {
    const taken = this.#handled.slice(0, total).map((at, order) => Math.max(0, at - this.#committed[order]));
    taken.sort((a, b) => a - b);
    const below = (share) => taken[Math.max(1, Math.ceil(total * share)) - 1];
    return { p50: below(0.5), p99: below(0.99), count: taken.length };
  }
}
