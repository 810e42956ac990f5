import { machine, type Report, type Result } from '../src/cli/report.js';
import type { RingFormat } from '../src/index.js';
import { type Case, type Plan, runPlan, stepsOf, type Times } from './harness/rounds.js';
import type { Chart, Suite, Watch } from './harness/suite.js';
import { MOVES, thresholdOverTime } from './indirect/history.js';
import type { TableParams } from './indirect/options.js';

/** Reported for a threshold of 16 segments. */
const REPORTED = 1.197;
const BURST = 32;

const POLICIES = ['always', 'static', 'adaptive', 'adaptive-hysteresis'] as const;

export interface Sweep {
  engines: readonly ('wasm' | 'typescript')[];
  sizes: number[];
  segments: TableParams['segments'][];
  species: TableParams['species'][];
  times: Times;
}

const ENGINES = ['wasm', 'typescript'] as const;

const FULL: Sweep = {
  engines: ENGINES,
  sizes: [16, 64, 256, 1024],
  segments: [1, 2, 4, 17, 'mixed'],
  species: ['send', 'receive'],
  times: { isolates: 3, runs: 3, runMs: 20, warmUpMs: 100 },
};

const QUICK: Sweep = {
  engines: ENGINES,
  sizes: [16, 256],
  segments: [2, 17, 'mixed'],
  species: ['send', 'receive'],
  times: { isolates: 2, runs: 3, runMs: 12, warmUpMs: 60 },
};

/** A buffer of more segments than the queue has descriptors cannot be added, however it is laid out. */
export function casesOf({ sizes, segments, species }: Sweep): Case[] {
  return (['split', 'packed'] as const).flatMap((ring) =>
    sizes.flatMap((size) =>
      segments
        .filter((n) => (n === 'mixed' ? 17 : n) <= size)
        .flatMap((n) =>
          species.map((kind) => ({
            ring,
            params: { size, burst: BURST, segments: n, species: kind, peer: 'device' },
          })),
        ),
    ),
  );
}

export async function runIndirectThreshold(sweep: Sweep, watch: Watch): Promise<Report> {
  const { engines, times } = sweep;
  const cases = casesOf(sweep);
  const plans = engines.map(
    (engine): Plan => ({
      entry: 'indirect.worker',
      source: import.meta.url,
      unit: 'ns/buffer',
      sameCode: true,
      times,
      contenders: Object.fromEntries(
        POLICIES.map((policy) => [
          policy,
          { engine, params: { engine, policy, strategy: 'list', table: 8 } },
        ]),
      ),
      cases,
      ratios: [
        ['static', 'always', REPORTED],
        ['adaptive', 'always', null],
        ['adaptive-hysteresis', 'always', null],
        ['adaptive-hysteresis', 'static', null],
      ],
    }),
  );
  const rings: RingFormat[] = ['split', 'packed'];
  watch.start(plans.reduce((sum, plan) => sum + stepsOf(plan), rings.length));
  const report: Report = { suite: indirectThreshold.name, machine: machine(), results: [], ratios: [] };
  for (const plan of plans) {
    const { results, ratios } = await runPlan(plan, watch);
    report.results.push(...results);
    report.ratios.push(...ratios);
  }
  for (const ring of rings) {
    report.results.push(...(await thresholdOverTime(ring)));
    watch.step('threshold over time');
  }
  return report;
}

function charts({ results }: Report): Chart[] {
  const timed = results.filter(({ unit }) => unit === 'ns/buffer');
  const of = (engine: string, ring: string, all: Result[]) =>
    all.filter((result) => result.engine === engine && result.ring === ring);
  return [
    ...(['split', 'packed'] as const).map((ring) => ({
      title: `Threshold over time, ${ring} ring`,
      subtitle: MOVES,
      x: 'added',
      label: 'buffers added',
      steps: 'segments',
      results: results.filter((result) => result.unit === 'segments' && result.ring === ring),
    })),
    ...ENGINES.flatMap((engine) =>
      (['split', 'packed'] as const).flatMap((ring) => [
        {
          title: `By ring size, ${ring} ring, ${engine}`,
          subtitle: `burst ${BURST}, send, buffers of 1, 2, 4 and 17 segments in turn`,
          x: 'size',
          label: 'descriptors',
          results: of(engine, ring, timed).filter(
            ({ params }) => params.segments === 'mixed' && params.species === 'send',
          ),
        },
        {
          title: `By segments, ${ring} ring, ${engine}`,
          subtitle: `ring size 256, burst ${BURST}, send`,
          x: 'segments',
          label: 'segments per buffer',
          results: of(engine, ring, timed).filter(
            ({ params }) => params.size === 256 && params.segments !== 'mixed' && params.species === 'send',
          ),
        },
      ]),
    ),
  ];
}

export const indirectThreshold: Suite = {
  name: 'indirect-threshold',
  about: 'when a buffer goes through a table: always, above a fixed number of segments, or as the ring fills',
  run: ({ quick }, watch) => runIndirectThreshold(quick ? QUICK : FULL, watch),
  charts,
  label: ({ size, segments, species }) => `${species}, ${segments} segments, ring ${size}`,
};
