import { Failure } from '../../src/cli/errors.js';
import { type Params, type Ratio, type Result, spread } from '../../src/cli/report.js';
import { Contender } from '../../src/cli/worker.js';
import type { HeapUse } from './heap.js';
import type { Reply, Request, Setup } from './serve.js';
import type { Watch } from './suite.js';

/** Parameters under which all contenders are compared. */
export interface Case {
  ring: string;
  params: Params;
}

export interface Plan {
  /** Worker entry beside `source`, which is the suite's import.meta.url. */
  entry: string;
  source: string;
  /** Contenders, with the engine that each one runs on. */
  contenders: Record<string, string>;
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
  for (const { ring, params } of plan.cases) {
    const times = await runCase(plan, params, watch);
    const runs = plan.runs;
    for (const [i, name] of names.entries())
      results.push({
        name,
        engine: plan.contenders[name],
        ring,
        unit: plan.unit,
        ...spread(times[i]),
        runs,
        params,
      });
    for (const [a, b, reported] of plan.ratios) {
      const [first, second] = [times[names.indexOf(a)], times[names.indexOf(b)]];
      const values = first.map((ns, run) => second[run] / ns);
      ratios.push({
        name: `${a}/${b}`,
        engine: plan.contenders[a],
        ring,
        params,
        ...spread(values),
        reported,
      });
    }
  }
  return { results, ratios };
}

/** Steps of `runPlan` for a progress bar. */
export const stepsOf = (plan: Plan): number =>
  plan.cases.length * Object.keys(plan.contenders).length * (plan.runs + 1);

async function runCase(plan: Plan, params: Params, watch: Watch): Promise<number[][]> {
  const names = Object.keys(plan.contenders);
  const workers: Worker[] = [];
  try {
    for (const name of names) {
      const worker = startContender(plan, name, params);
      workers.push(worker);
      await ask(worker, name, { what: 'warm-up' });
      watch.step(describe(params));
    }
    const times: number[][] = names.map(() => []);
    for (let run = 0; run < plan.runs; run++) {
      for (const [i, name] of names.entries()) {
        times[i].push((await ask<{ ns: number }>(workers[i], name, { what: 'run' })).ns);
        watch.step(describe(params));
      }
    }
    return times;
  } finally {
    await Promise.all(workers.map((worker) => worker.stop()));
  }
}

/** What one contender allocates. */
export async function heapOf(plan: Plan, name: string, params: Params, buffers: number): Promise<HeapUse> {
  const worker = startContender(plan, name, params);
  try {
    await ask(worker, name, { what: 'warm-up' });
    return (await ask<{ heap: HeapUse }>(worker, name, { what: 'heap', buffers })).heap;
  } finally {
    await worker.stop();
  }
}

const startContender = (
  { entry, source, warmUpMs, runMs }: Plan,
  contender: string,
  params: Params,
): Worker => new Contender(entry, source, { contender, params, warmUpMs, runMs } satisfies Setup);

async function ask<R extends Reply>(worker: Worker, name: string, request: Request): Promise<R> {
  const reply = await worker.ask(request);
  if ('error' in reply) throw new Failure(`${name}: ${reply.error}`);
  return reply as R;
}

/** "burst 32, size 256, …" */
export const describe = (params: Params): string =>
  Object.entries(params)
    .map(([key, value]) => `${key} ${value}`)
    .join(', ');
