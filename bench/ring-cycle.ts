import { machine, type Report, type Result } from '../src/cli/report.js';
import { type Case, heapOf, type Plan, runPlan, stepsOf } from './harness/rounds.js';
import type { Chart, Suite, SuiteOptions, Watch } from './harness/suite.js';
import type { CycleOptions } from './ring-cycle/options.js';

const RING = 'split';
/** What is varied one parameter at a time. */
const CENTRE: CycleOptions = { burst: 32, size: 256, segments: 1, eventIdx: true };

const CONTENDERS = {
  'wasm-burst': 'wasm',
  'wasm-methods': 'wasm',
  'wasm-single': 'wasm',
  'typescript-burst': 'typescript',
  'typescript-methods': 'typescript',
  'typescript-single': 'typescript',
  'bare-loop': 'none',
};

const RATIOS: Plan['ratios'] = [
  ['wasm-burst', 'typescript-single', null],
  ['wasm-burst', 'typescript-burst', null],
  ['typescript-burst', 'bare-loop', null],
];

/** On the burst path, per engine. */
const HEAP = ['wasm-burst', 'typescript-burst'] as const;
const HEAP_BUFFERS = 10_000_000;

export interface Sweep {
  bursts: number[];
  segments: number[];
  sizes: number[];
  eventIdx: boolean[];
  runs: number;
  runMs: number;
  warmUpMs: number;
  heapBuffers: number;
}

const FULL: Sweep = {
  bursts: [1, 8, 32, 128],
  segments: [1, 2, 4],
  sizes: [16, 64, 256, 1024, 4096, 32768],
  eventIdx: [true, false],
  runs: 9,
  runMs: 30,
  warmUpMs: 150,
  heapBuffers: HEAP_BUFFERS,
};

const QUICK: Sweep = {
  bursts: [1, 8, 32, 128],
  segments: [1, 4],
  sizes: [16, 256, 32768],
  eventIdx: [true, false],
  runs: 5,
  runMs: 20,
  warmUpMs: 80,
  heapBuffers: HEAP_BUFFERS,
};

/** Burst × segments in full, ring size and event index from the centre; a burst that does not fit is left out. */
export function casesOf({ bursts, segments, sizes, eventIdx }: Sweep): Case[] {
  const cases: CycleOptions[] = [];
  for (const count of segments) for (const burst of bursts) cases.push({ ...CENTRE, burst, segments: count });
  for (const size of sizes) cases.push({ ...CENTRE, size, burst: Math.min(CENTRE.burst, size) });
  for (const on of eventIdx) cases.push({ ...CENTRE, eventIdx: on });
  const seen = new Set<string>();
  return cases
    .filter(({ burst, segments, size }) => burst * segments <= size)
    .filter((params) => {
      const key = JSON.stringify(params);
      return !seen.has(key) && seen.add(key);
    })
    .map((params) => ({ ring: RING, params: { ...params } }));
}

export const ringCycle: Suite = {
  name: 'ring-cycle',
  about: 'one buffer through the ring: add, kick, pop, push, get',
  run: ({ quick }: SuiteOptions, watch) => runRingCycle(quick ? QUICK : FULL, watch),
  charts,
};

export async function runRingCycle(sweep: Sweep, watch: Watch): Promise<Report> {
  const plan: Plan = {
    entry: 'ring-cycle.worker',
    source: import.meta.url,
    contenders: CONTENDERS,
    cases: casesOf(sweep),
    ratios: RATIOS,
    unit: 'ns/buffer',
    runs: sweep.runs,
    runMs: sweep.runMs,
    warmUpMs: sweep.warmUpMs,
  };
  watch.start(stepsOf(plan) + HEAP.length);
  const { results, ratios } = await runPlan(plan, watch);
  for (const name of HEAP) {
    results.push(await heapResult(plan, name, sweep.heapBuffers));
    watch.step('heap');
  }
  return { suite: ringCycle.name, machine: machine(), results, ratios };
}

async function heapResult(plan: Plan, name: (typeof HEAP)[number], wanted: number): Promise<Result> {
  const params = { ...CENTRE };
  const { bytes, buffers, collections } = await heapOf(plan, name, params, wanted);
  return {
    name: 'heap-per-buffer',
    engine: CONTENDERS[name],
    ring: RING,
    unit: 'bytes',
    median: bytes,
    min: bytes,
    max: bytes,
    runs: 1,
    params: { ...params, buffers, collections },
  };
}

function charts({ results }: Report): Chart[] {
  const timed = results.filter(({ unit }) => unit === 'ns/buffer');
  /** Results at the centre but for the parameters in `free`. */
  const at = (fixed: Partial<CycleOptions>) =>
    timed.filter(({ params }) => Object.entries(fixed).every(([key, value]) => params[key] === value));
  const { burst, size, segments, eventIdx } = CENTRE;
  return [
    {
      title: 'By burst',
      subtitle: `ring ${size}, ${segments} segment, event index`,
      x: 'burst',
      label: 'buffers per burst',
      results: at({ size, segments, eventIdx }),
    },
    {
      title: 'By ring size',
      subtitle: `burst ${burst} (16 in a ring of 16), ${segments} segment, event index`,
      x: 'size',
      label: 'descriptors',
      results: at({ segments, eventIdx }).filter(
        ({ params }) => params.burst === Math.min(burst, params.size as number),
      ),
    },
    {
      title: 'By segments',
      subtitle: `ring ${size}, burst ${burst}, event index`,
      x: 'segments',
      label: 'segments per buffer',
      results: at({ size, burst, eventIdx }),
    },
  ];
}
