import { Failure } from '../../src/cli/errors.js';
import { type Params, type Ratio, type Result, spread } from '../../src/cli/report.js';
import { Contender } from '../../src/cli/worker.js';
import type { RingFormat } from '../../src/index.js';
import type { HeapUse } from './heap.js';
import type { Reply, Request, Setup } from './serve.js';
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
  runs: number;
  runMs: number;
  warmUpMs: number;
}

type Worker = Contender<Request, Reply>;

/**
 * Runs all contenders of a case in turn, A B C A B C …, so that what disturbs the machine disturbs all of
 * them, and takes ratios within a round. Each contender has a thread, and so an isolate, of its own, as the
 * user of one engine has: shared code that has seen both engines' types runs slower with either.
 */
export async function runPlan(plan: Plan, watch: Watch): Promise<{ results: Result[]; ratios: Ratio[] }> {
  const names = Object.keys(plan.contenders);
  const results: Result[] = [];
  const ratios: Ratio[] = [];
  for (const at of plan.cases) {
    const times = await runCase(plan, at, watch);
    const { params } = at;
    const runs = plan.runs;
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
export const stepsOf = (plan: Plan): number =>
  plan.cases.length * Object.keys(plan.contenders).length * (plan.runs + 1);

async function runCase(plan: Plan, at: Case, watch: Watch): Promise<number[][]> {
  const names = Object.keys(plan.contenders);
  const workers: Worker[] = [];
  try {
    for (const name of names) {
      const worker = startContender(plan, name, at);
      workers.push(worker);
      await ask(worker, name, { what: 'warm-up' });
      watch.step(describe(at));
    }
    const times: number[][] = names.map(() => []);
    for (let run = 0; run < plan.runs; run++) {
      for (const [i, name] of names.entries()) {
        times[i].push((await ask<{ ns: number }>(workers[i], name, { what: 'run' })).ns);
        watch.step(describe(at));
      }
    }
    return times;
  } finally {
    await Promise.all(workers.map((worker) => worker.stop()));
  }
}

/** What one contender allocates. */
export async function heapOf(plan: Plan, name: string, at: Case, buffers: number): Promise<HeapUse> {
  const worker = startContender(plan, name, at);
  try {
    await ask(worker, name, { what: 'warm-up' });
    return (await ask<{ heap: HeapUse }>(worker, name, { what: 'heap', buffers })).heap;
  } finally {
    await worker.stop();
  }
}

function startContender(plan: Plan, name: string, at: Case): Worker {
  const { entry, source, warmUpMs, runMs } = plan;
  const { task = name, ring = at.ring, params } = plan.contenders[name];
  const setup: Setup = { contender: task, ring, params: { ...at.params, ...params }, warmUpMs, runMs };
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
