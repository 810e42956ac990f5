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

/** What one contender runs. */
export interface Assignment {
  contender: string;
  ring: RingFormat;
  params: Params;
}

export interface Setup {
  /** All that live in this thread. */
  assignments: Assignment[];
  warmUpMs: number;
  sliceMs: number;
}

/** `contender` is an index into the assignments. */
export type Request =
  | { what: 'warm-up' }
  | { what: 'slice'; contender: number }
  | { what: 'heap'; contender: number; buffers: number };
export type Reply = { ns: number } | { heap: HeapUse } | { ready: true } | { error: string };

/** @param prepare makes the task of a contender */
export function serve(prepare: (assignment: Assignment) => Task | Promise<Task>): void {
  const { assignments, warmUpMs, sliceMs } = workerData as Setup;
  const ready = Promise.all(
    assignments.map(async (assignment) => {
      const task = await prepare(assignment);
      // Tinybench times batches within one slice. The slices are ours: it would do all of one contender
      // before those of the next.
      const bench = new Bench({ time: sliceMs, iterations: 1, warmup: false, throws: true });
      bench.add(assignment.contender, () => task.batch(), { async: false });
      return { task, timed: bench.tasks[0] };
    }),
  );
  ready.catch(() => {}); // reported with the first request

  const answer = async (request: Request): Promise<Reply> => {
    const contenders = await ready;
    if (request.what === 'warm-up') {
      warmUp(
        contenders.map(({ timed }) => timed),
        warmUpMs,
      );
      return { ready: true };
    }
    const { task, timed } = contenders[request.contender];
    if (request.what === 'heap') return { heap: await measureHeap(task, request.buffers) };
    return { ns: (run(timed) * 1e6) / task.buffers };
  };
  parentPort?.on('message', async (request: Request) => {
    parentPort?.postMessage(await answer(request).catch((error: Error): Reply => ({ error: error.message })));
  });
}

const WARM_UP_MAX = 8; // times the least
const STEADY = 10;

/**
 * Runs all in turn until none has become clearly faster for a while: a fixed time would end before the
 * optimising compiler on a busy machine, because that works in threads of its own.
 */
function warmUp(tasks: Timed[], atLeastMs: number): void {
  const start = performance.now();
  const best = tasks.map(() => Number.POSITIVE_INFINITY);
  const least = atLeastMs * tasks.length;
  for (let steady = 0; steady < STEADY || performance.now() - start < least; steady++) {
    for (const [i, task] of tasks.entries()) {
      const mean = run(task);
      if (mean < best[i] * 0.9) steady = 0;
      best[i] = Math.min(best[i], mean);
    }
    if (performance.now() - start > WARM_UP_MAX * least) return;
  }
}

/** One slice. @returns milliseconds per batch: the mean, because garbage collections are part of the price */
function run(timed: Timed): number {
  timed.reset();
  timed.runSync();
  const { result } = timed;
  if (result.state !== 'completed') throw new Error(`the slice ended as ${result.state}`);
  return result.latency.mean;
}
