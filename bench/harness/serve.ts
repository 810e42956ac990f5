// A contender's side of a measurement: the body of a worker's entry file.
import { parentPort, workerData } from 'node:worker_threads';
import { Bench, type Task as Timed } from 'tinybench';
import type { Params } from '../../src/cli/report.js';
import type { RingFormat } from '../../src/index.js';
import { type HeapUse, measureHeap } from './heap.js';

/**
 * What is timed. One operation takes nanoseconds, about as long as it takes to read the clock, so a batch
 * has about a thousand of them.
 */
export interface Task {
  /** Buffers of one batch. */
  buffers: number;
  batch(): void;
}

/** About how many operations a batch should have. */
export const BATCH = 1024;

export interface Setup {
  contender: string;
  ring: RingFormat;
  params: Params;
  warmUpMs: number;
  runMs: number;
}

export type Request = { what: 'warm-up' } | { what: 'run' } | { what: 'heap'; buffers: number };
export type Reply = { ns: number } | { heap: HeapUse } | { ready: true } | { error: string };

/** @param prepare makes the task of a contender */
export function serve(prepare: (setup: Setup) => Task | Promise<Task>): void {
  const { warmUpMs, runMs, contender } = workerData as Setup;
  const ready = Promise.resolve(prepare(workerData as Setup)).then((task) => {
    // Tinybench times batches within one run. The runs are ours: it would do all runs of one contender
    // before those of the next, and here contenders take turns, each in its own thread.
    const bench = new Bench({
      time: runMs,
      iterations: 4,
      warmup: false,
      throws: true,
    });
    bench.add(contender, () => task.batch(), { async: false });
    return { task, timed: bench.tasks[0] };
  });
  ready.catch(() => {}); // reported with the first request

  const answer = async (request: Request): Promise<Reply> => {
    const { task, timed } = await ready;
    if (request.what === 'warm-up') {
      warmUp(timed, warmUpMs);
      return { ready: true };
    }
    if (request.what === 'heap') return { heap: await measureHeap(task, request.buffers) };
    return { ns: (run(timed) * 1e6) / task.buffers };
  };
  parentPort?.on('message', async (request: Request) => {
    parentPort?.postMessage(await answer(request).catch((error: Error): Reply => ({ error: error.message })));
  });
}

const WARM_UP_MAX = 8; // times the least
const STEADY_RUNS = 3;

/**
 * Runs until no run is clearly faster than those before it: a fixed time would end before the optimising
 * compiler on a busy machine, because that works in threads of its own.
 */
function warmUp(timed: Timed, atLeastMs: number): void {
  const start = performance.now();
  let best = Number.POSITIVE_INFINITY;
  for (let steady = 0; steady < STEADY_RUNS || performance.now() - start < atLeastMs; ) {
    const mean = run(timed);
    steady = mean < best * 0.9 ? 0 : steady + 1;
    best = Math.min(best, mean);
    if (performance.now() - start > WARM_UP_MAX * atLeastMs) return;
  }
}

/** One run. @returns milliseconds per batch: the mean, because garbage collections are part of the price */
function run(timed: Timed): number {
  timed.reset();
  timed.runSync();
  const { result } = timed;
  if (result.state !== 'completed') throw new Error(`the run ended as ${result.state}`);
  return result.latency.mean;
}
