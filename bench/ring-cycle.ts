import { machine, type Report, type Result } from '../src/cli/report.js';
import type { RingFormat } from '../src/index.js';
import { type Case, heapOf, type Plan, runPlan, stepsOf, type Times } from './harness/rounds.js';
import type { Chart, Suite, SuiteOptions, Watch } from './harness/suite.js';
import type { CycleParams } from './ring-cycle/options.js';

/** What is varied one parameter at a time. */
const CENTRE: CycleParams = { burst: 32, size: 256, segments: 1, eventIdx: true };

const ENGINES: Plan['contenders'] = {
  'wasm-burst': { engine: 'wasm' },
  'wasm-methods': { engine: 'wasm' },
  'wasm-single': { engine: 'wasm' },
  'typescript-burst': { engine: 'typescript' },
  'typescript-methods': { engine: 'typescript' },
  'typescript-single': { engine: 'typescript' },
};

const ENGINE_RATIOS: Plan['ratios'] = [
  ['wasm-burst', 'typescript-single', null],
  ['wasm-burst', 'typescript-burst', null],
];

/** The bare loop has the loads and stores of a split ring. */
const SPLIT: Pick<Plan, 'contenders' | 'ratios'> = {
  contenders: { ...ENGINES, 'bare-loop': { engine: 'none' } },
  ratios: [...ENGINE_RATIOS, ['typescript-burst', 'bare-loop', null]],
};

const PACKED: Pick<Plan, 'contenders' | 'ratios'> = { contenders: ENGINES, ratios: ENGINE_RATIOS };

/** Formats and orders against each other, on each engine. */
function formats(engine: 'wasm' | 'typescript'): Pick<Plan, 'contenders' | 'ratios'> {
  const task = `${engine}-burst`;
  const rings = ['split', 'packed'] as const;
  const of = (ring: RingFormat, inOrder: boolean) => `${engine}-${ring}${inOrder ? '-in-order' : ''}`;
  return {
    contenders: Object.fromEntries(
      [false, true].flatMap((inOrder) =>
        rings.map((ring) => [of(ring, inOrder), { engine, task, ring, params: { inOrder } }]),
      ),
    ),
    ratios: [
      [of('packed', false), of('split', false), null],
      ...rings.map((ring): Plan['ratios'][number] => [of(ring, true), of(ring, false), null]),
    ],
  };
}

/** On the burst path, per engine and ring. */
const HEAP = ['wasm-burst', 'typescript-burst'] as const;
const HEAP_BUFFERS = 10_000_000;

export interface Sweep {
  bursts: number[];
  segments: number[];
  sizes: number[];
  eventIdx: boolean[];
  times: Times;
  heapBuffers: number;
}

const FULL: Sweep = {
  bursts: [1, 8, 32, 128],
  segments: [1, 2, 4],
  sizes: [16, 64, 256, 1024, 4096, 32768],
  eventIdx: [true, false],
  times: { isolates: 3, runs: 3, runMs: 30, warmUpMs: 150 },
  heapBuffers: HEAP_BUFFERS,
};

const QUICK: Sweep = {
  bursts: [1, 8, 32, 128],
  segments: [1, 4],
  sizes: [16, 256, 32768],
  eventIdx: [true, false],
  times: { isolates: 2, runs: 3, runMs: 20, warmUpMs: 80 },
  heapBuffers: HEAP_BUFFERS,
};

/** Burst × segments in full, ring size and event index from the centre; a burst that does not fit is left out. */
export function casesOf({ bursts, segments, sizes, eventIdx }: Sweep, ring: RingFormat): Case[] {
  const cases: CycleParams[] = [];
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
    .map((params) => ({ ring, params: { ...params } }));
}

export const ringCycle: Suite = {
  name: 'ring-cycle',
  about: 'one buffer through the ring: add, kick, pop, push, get',
  run: ({ quick }: SuiteOptions, watch) => runRingCycle(quick ? QUICK : FULL, watch),
  charts,
};

export async function runRingCycle(sweep: Sweep, watch: Watch): Promise<Report> {
  const { times } = sweep;
  const common = {
    entry: 'ring-cycle.worker',
    source: import.meta.url,
    unit: 'ns/buffer',
    times,
  };
  const bySegments = casesOf({ ...sweep, bursts: [CENTRE.burst], sizes: [], eventIdx: [] }, 'split');
  const plans: Plan[] = [
    { ...common, ...SPLIT, cases: casesOf(sweep, 'split') },
    { ...common, ...PACKED, cases: casesOf(sweep, 'packed') },
    { ...common, ...formats('wasm'), cases: bySegments },
    { ...common, ...formats('typescript'), cases: bySegments },
  ];
  const heaps = plans.slice(0, 2).flatMap((plan) => HEAP.map((name) => ({ plan, name })));
  watch.start(plans.reduce((sum, plan) => sum + stepsOf(plan), heaps.length));
  const report: Report = { suite: ringCycle.name, machine: machine(), results: [], ratios: [] };
  for (const plan of plans) {
    const { results, ratios } = await runPlan(plan, watch);
    report.results.push(...results);
    report.ratios.push(...ratios);
  }
  for (const { plan, name } of heaps) {
    report.results.push(await heapResult(plan, name, sweep.heapBuffers));
    watch.step('heap');
  }
  return report;
}

async function heapResult(plan: Plan, name: (typeof HEAP)[number], wanted: number): Promise<Result> {
  const at = { ring: plan.cases[0].ring, params: { ...CENTRE } };
  const { bytes, buffers, collections } = await heapOf(plan, name, at, wanted);
  return {
    name: 'heap-per-buffer',
    engine: plan.contenders[name].engine,
    ring: at.ring,
    unit: 'bytes',
    median: bytes,
    min: bytes,
    max: bytes,
    runs: 1,
    params: { ...at.params, buffers, collections },
  };
}

function charts({ results }: Report): Chart[] {
  const timed = results.filter(({ unit }) => unit === 'ns/buffer');
  const { burst, size } = CENTRE;
  const format = timed.filter(({ name }) => !(name in SPLIT.contenders));
  return [
    ...(['split', 'packed'] as const).flatMap((ring) =>
      engineCharts(
        ring,
        timed.filter((result) => result.ring === ring && result.name in SPLIT.contenders),
      ),
    ),
    ...(['wasm', 'typescript'] as const).map((engine) => ({
      title: `Split, packed and in-order, ${engine}`,
      subtitle: `ring size ${size}, burst ${burst}, event index`,
      x: 'segments',
      label: 'segments per buffer',
      results: format.filter((result) => result.engine === engine),
    })),
  ];
}

function engineCharts(ring: RingFormat, timed: Result[]): Chart[] {
  /** Results at the centre but for the parameters that are not `fixed`. */
  const at = (fixed: Partial<CycleParams>) =>
    timed.filter(({ params }) => Object.entries(fixed).every(([key, value]) => params[key] === value));
  const { burst, size, segments, eventIdx } = CENTRE;
  return [
    {
      title: `By burst, ${ring}`,
      subtitle: `ring size ${size}, ${segments} segment, event index`,
      x: 'burst',
      label: 'buffers per burst',
      results: at({ size, segments, eventIdx }),
    },
    {
      title: `By ring size, ${ring}`,
      subtitle: `burst ${burst} (16 in a ring of 16), ${segments} segment, event index`,
      x: 'size',
      label: 'descriptors',
      results: at({ segments, eventIdx }).filter(
        ({ params }) => params.burst === Math.min(burst, params.size as number),
      ),
    },
    {
      title: `By segments, ${ring}`,
      subtitle: `ring size ${size}, burst ${burst}, event index`,
      x: 'segments',
      label: 'segments per buffer',
      results: at({ size, burst, eventIdx }),
    },
  ];
}
