import { expect } from 'chai';
import type { Watch } from '../../bench/harness/suite.js';
import { casesOf, indirectCache, runIndirectCache } from '../../bench/indirect-cache.js';
import { indirectThreshold, runIndirectThreshold } from '../../bench/indirect-threshold.js';
import { toHtml } from '../../src/cli/bench/html.js';
import { print } from '../../src/cli/bench/print.js';
import type { Report } from '../../src/cli/report.js';

/** One engine: threads take long to start. */
const TINY = {
  engines: ['wasm'],
  times: { isolates: 1, runs: 2, runMs: 1, warmUpMs: 1 },
} as const;
const RINGS = ['split', 'packed'];

/** Runs a suite; as many steps must be done as were announced. */
async function run(suite: (watch: Watch) => Promise<Report>): Promise<Report> {
  let [wanted, done] = [0, 0];
  const report = await suite({ start: (steps) => (wanted = steps), step: () => done++ });
  expect(done).to.equal(wanted);
  return report;
}

/** name, engine, ring, reported: each once. */
const ratiosOf = ({ ratios }: Report): string[] =>
  [
    ...new Set(ratios.map(({ name, engine, ring, reported }) => `${name} ${engine} ${ring} ${reported}`)),
  ].sort();

const all = (names: [string, number | null][]): string[] =>
  names.flatMap(([name, reported]) => RINGS.map((ring) => `${name} wasm ${ring} ${reported}`)).sort();

/** A page and tables of it, with every ratio in them. */
function shows(suite: Parameters<typeof toHtml>[0][number]['suite'], report: Report): void {
  const html = toHtml([{ suite, report }]);
  expect(html).not.to.match(/NaN|undefined/);
  const text = print(suite, report);
  for (const { name } of report.ratios) {
    expect(html).to.include(name.replace('/', ' / '));
    expect(text).to.include(name.replace('/', ' / '));
  }
}

describe('benchmarks of indirect tables', () => {
  it('indirect-cache: table sizes against segments with the driver alone, two segments also with a device', () => {
    const cases = casesOf({ tables: [2, 8], segments: [2, 17] });
    expect(
      cases
        .filter(({ ring }) => ring === 'packed')
        .map(({ params: { segments, table, peer } }) => [segments, table, peer]),
    ).to.deep.equal([
      [2, 2, 'echo'],
      [2, 8, 'echo'],
      [17, 2, 'echo'],
      [17, 8, 'echo'],
      [2, 4, 'device'],
    ]);
  });

  it('indirect-cache: every strategy on both rings, against the one without a cache', async () => {
    const report = await run((watch) => runIndirectCache({ ...TINY, tables: [4], segments: [2] }, watch));
    expect(ratiosOf(report)).to.deep.equal(
      all([
        ['list/none', 1.161],
        ['slab/none', null],
        ['slab-bulk/none', null],
      ]),
    );
    for (const { median } of report.results) expect(median).to.be.greaterThan(0);
    shows(indirectCache, report);
  });

  it('indirect-threshold: every policy on both rings, and the threshold over time', async () => {
    const report = await run((watch) =>
      runIndirectThreshold(
        {
          ...TINY,
          sizes: [64],
          segments: [2],
          species: ['send'],
          times: { ...TINY.times, isolates: 2 },
        },
        watch,
      ),
    );
    expect(ratiosOf(report)).to.deep.equal(
      all([
        ['static/always', 1.197],
        ['adaptive/always', null],
        ['adaptive-hysteresis/always', null],
        ['adaptive-hysteresis/static', null],
      ]),
    );
    const history = report.results.filter(({ unit }) => unit === 'segments');
    for (const ring of RINGS)
      expect(
        new Set(history.filter((result) => result.ring === ring).map(({ median }) => median)).size,
        'different thresholds',
      ).to.be.greaterThan(2);
    shows(indirectThreshold, report);
  });
});
