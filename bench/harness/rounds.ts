import { Failure } from '../../src/cli/errors.js';
import { type Params, type Ratio, type Result, spread } from '../../src/cli/report.js';
import { Contender } from '../../src/cli/worker.js';
import type { RingFormat } from '../../src/index.js';
import type { HeapUse } from './heap.js';
import type { Assignment, Reply, Request, Setup } from './serve.js';
import type { Watch } from './suite.js';

/** Parameters under which all contenders are compared. */
export interface Case {
  ring: RingFormat;
  params: Params;
}

/** One of those that are compared. */
export interface Entrant {
  /** Engine that it runs on, for the results. */
  engine: string;
  /** What the worker is to run, where that is not the contender's own name. */
  task?: string;
  /** Ring and parameters that are its own, in place of the case's. */
  ring?: RingFormat;
  params?: Params;
}

export interface Plan {
  /** Worker entry beside `source`, which is the suite's import.meta.url. */
  entry: string;
  source: string;
  contenders: Record<string, Entrant>;
  cases: Case[];
  /** Pairs [a, b] with the reported figure, if there is one. */
  ratios: [string, string, number | null][];
  unit: string;
  /**
   * All contenders run the same code and share a thread. Otherwise each has one of its own, as the user of one
   * engine has: code that has seen both engines' types runs slower with either.
   */
  sameCode?: boolean;
  times: Times;
}

/** How long to measure; all of it is done for each case. */
export interface Times {
  /**
   * Times that all starts again in new threads. Where code and memory of a thread come to lie can make more of a
   * difference than what is compared, and stays as it is for as long as the thread lives.
   */
  isolates: number;
  /** Figures taken in each. */
  runs: number;
  /** Of one run of one contender. */
  runMs: number;
  /** At least, of each contender in each isolate. */
  warmUpMs: number;
}

/** Short against the moods of a machine, long against the loss of warm caches when contenders take turns. */
const SLICE_MS = 2;

type Worker = Contender<Request, Reply>;

/** Where a contender lives. */
interface Seat {
  name: string;
  worker: Worker;
  contender: number;
}

/**
 * Runs all contenders of a case in slices, A B C A B C …, so that what disturbs the machine disturbs all of them,
 * and takes ratios within a run.
 */
export async function runPlan(plan: Plan, watch: Watch): Promise<{ results: Result[]; ratios: Ratio[] }> {
  const names = Object.keys(plan.contenders);
  const results: Result[] = [];
  const ratios: Ratio[] = [];
  for (const at of plan.cases) {
    const times = await runCase(plan, at, watch);
    const { params } = at;
    const runs = plan.times.isolates * plan.times.runs;
    for (const [i, name] of names.entries()) {
      const { engine, ring = at.ring } = plan.contenders[name];
      results.push({ name, engine, ring, unit: plan.unit, ...spread(times[i]), runs, params });
    }
    for (const [a, b, reported] of plan.ratios) {
      const [first, second] = [times[names.indexOf(a)], times[names.indexOf(b)]];
      const values = first.map((ns, run) => second[run] / ns);
      const { engine, ring = at.ring } = plan.contenders[a];
      ratios.push({ name: `${a}/${b}`, engine, ring, params, ...spread(values), reported });
    }
  }
  return { results, ratios };
}

/** Steps of `runPlan` for a progress bar. */
export const stepsOf = ({ cases, times }: Plan): number => cases.length * times.isolates * (times.runs + 1);

/** @returns the runs of each contender, in ns per buffer */
async function runCase(plan: Plan, at: Case, watch: Watch): Promise<number[][]> {
  const names = Object.keys(plan.contenders);
  const all: number[][] = names.map(() => []);
  for (let isolate = 0; isolate < plan.times.isolates; isolate++) {
    const workers: Worker[] = [];
    try {
      for (const group of plan.sameCode ? [names] : names.map((name) => [name])) {
        workers.push(startWorker(plan, group, at));
        await ask(workers[workers.length - 1], group.join(', '), { what: 'warm-up' });
      }
      watch.step(describe(at));
      const seats = names.map(
        (name, i): Seat => ({
          name,
          worker: plan.sameCode ? workers[0] : workers[i],
          contender: plan.sameCode ? i : 0,
        }),
      );
      for (let n = 0; n < plan.times.runs; n++) {
        const run = await runOnce(seats, plan.times.runMs);
        for (const [i, ns] of run.entries()) all[i].push(ns);
        watch.step(describe(at));
      }
    } finally {
      await Promise.all(workers.map((worker) => worker.stop()));
    }
  }
  return all;
}

/** @returns the mean of each, because garbage collections are part of the price */
async function runOnce(seats: Seat[], runMs: number): Promise<number[]> {
  const slices = Math.ceil(runMs / SLICE_MS);
  const sums = seats.map(() => 0);
  for (let slice = 0; slice < slices; slice++)
    for (const [i, { name, worker, contender }] of seats.entries())
      sums[i] += (await ask<{ ns: number }>(worker, name, { what: 'slice', contender })).ns;
  return sums.map((sum) => sum / slices);
}

/** What one contender allocates. */
export async function heapOf(plan: Plan, name: string, at: Case, buffers: number): Promise<HeapUse> {
  const worker = startWorker(plan, [name], at);
  try {
    await ask(worker, name, { what: 'warm-up' });
    return (await ask<{ heap: HeapUse }>(worker, name, { what: 'heap', contender: 0, buffers })).heap;
  } finally {
    await worker.stop();
  }
}

function startWorker({ entry, source, contenders, times }: Plan, names: string[], at: Case): Worker {
  const assignments = names.map((name): Assignment => {
    const { task = name, ring = at.ring, params } = contenders[name];
    return { contender: task, ring, params: { ...at.params, ...params } };
  });
  const setup: Setup = { assignments, warmUpMs: times.warmUpMs, sliceMs: SLICE_MS };
  return new Contender(entry, source, setup);
}

async function ask<R extends Reply>(worker: Worker, name: string, request: Request): Promise<R> {
  const reply = await worker.ask(request);
  if ('error' in reply) throw new Failure(`${name}: ${reply.error}`);
  return reply as R;
}

/** "split, burst 32, size 256, …" */
const describe = ({ ring, params }: Case): string =>
  [ring, ...Object.entries(params).map(([key, value]) => `${key} ${value}`)].join(', ');
