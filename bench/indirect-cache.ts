import { machine, type Report } from '../src/cli/report.js';
import type { TableStrategy } from '../src/index.js';
import { type Case, type Plan, runPlan, stepsOf, type Times } from './harness/rounds.js';
import type { Chart, Suite, Watch } from './harness/suite.js';
import type { TableParams } from './indirect/options.js';

const SIZE = 256;
const BURST = 32;
/** Reported at two segments, with tables of four descriptors. */
const REPORTED = 1.161;
const REPORTED_SEGMENTS = 2;

const STRATEGIES: readonly TableStrategy[] = ['none', 'slab', 'slab-bulk', 'list'];

export interface Sweep {
  engines: readonly ('wasm' | 'typescript')[];
  /** Descriptors of the cache's tables. */
  tables: number[];
  segments: number[];
  times: Times;
}

const ENGINES = ['wasm', 'typescript'] as const;

const FULL: Sweep = {
  engines: ENGINES,
  tables: [2, 4, 8, 16, 32],
  segments: [2, 3, 4, 6, 8, 12, 17],
  times: { isolates: 3, runs: 3, runMs: 20, warmUpMs: 100 },
};

const QUICK: Sweep = {
  engines: ENGINES,
  tables: [4, 16],
  segments: [2, 4, 17],
  times: { isolates: 2, runs: 3, runMs: 12, warmUpMs: 60 },
};

/** Tables against requests with the driver alone, as in the proposal's measurement; through a device the smallest. */
export function casesOf({ tables, segments }: Pick<Sweep, 'tables' | 'segments'>): Case[] {
  const common = { size: SIZE, burst: BURST, species: 'send' };
  const driver = segments.flatMap((n) =>
    tables.map((table) => ({ ...common, segments: n, table, peer: 'echo' })),
  );
  const both = { ...common, segments: REPORTED_SEGMENTS, table: 4, peer: 'device' };
  return (['split', 'packed'] as const).flatMap((ring) =>
    [...driver, both].map((params: Omit<TableParams, 'species' | 'peer'> & Record<string, unknown>) => ({
      ring,
      params: { ...params } as Case['params'],
    })),
  );
}

export async function runIndirectCache(sweep: Sweep, watch: Watch): Promise<Report> {
  const { engines, times } = sweep;
  const cases = casesOf(sweep);
  const plans = engines.flatMap((engine) => {
    const contenders: Plan['contenders'] = Object.fromEntries(
      STRATEGIES.map((strategy) => [strategy, { engine, params: { engine, strategy, policy: 'always' } }]),
    );
    return [true, false].map((reported): Plan => {
      const at = cases.filter(({ params }) => (params.segments === REPORTED_SEGMENTS) === reported);
      return {
        entry: 'indirect.worker',
        source: import.meta.url,
        unit: 'ns/buffer',
        sameCode: true,
        times,
        contenders,
        cases: at,
        ratios: [
          ['list', 'none', reported ? REPORTED : null],
          ['slab', 'none', null],
          ['slab-bulk', 'none', null],
        ],
      };
    });
  });
  watch.start(plans.reduce((sum, plan) => sum + stepsOf(plan), 0));
  const report: Report = { suite: indirectCache.name, machine: machine(), results: [], ratios: [] };
  for (const plan of plans) {
    const { results, ratios } = await runPlan(plan, watch);
    report.results.push(...results);
    report.ratios.push(...ratios);
  }
  return report;
}

function charts({ results }: Report): Chart[] {
  return ENGINES.flatMap((engine) =>
    (['split', 'packed'] as const).flatMap((ring) => {
      const mine = results.filter(
        (result) => result.engine === engine && result.ring === ring && result.params.peer === 'echo',
      );
      const where = `${ring} ring, ${engine}`;
      const subtitle = `ring size ${SIZE}, burst ${BURST}, the driver alone`;
      return [
        {
          title: `By the size of the cache's tables, ${where}`,
          subtitle: `${subtitle}, ${REPORTED_SEGMENTS} segments`,
          x: 'table',
          label: 'descriptors of a table',
          results: mine.filter(({ params }) => params.segments === REPORTED_SEGMENTS),
        },
        {
          title: `By segments, ${where}`,
          subtitle: `${subtitle}, tables of 4`,
          x: 'segments',
          label: 'segments per buffer',
          results: mine.filter(({ params }) => params.table === 4),
        },
      ];
    }),
  );
}

export const indirectCache: Suite = {
  name: 'indirect-cache',
  about: 'where tables of indirect descriptors come from: a general allocator, a slab cache, a list',
  run: ({ quick }, watch) => runIndirectCache(quick ? QUICK : FULL, watch),
  charts,
  label: ({ segments, table, peer }) =>
    `${segments} segments, tables of ${table}${peer === 'device' ? ', with a device' : ''}`,
};
