import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'chai';
import { measureHeap } from '../../bench/harness/heap.js';
import type { Suite } from '../../bench/harness/suite.js';
import { OPERATIONS } from '../../bench/lazy-translation/tasks.js';
import {
  lazyTranslation,
  runLazyTranslation,
  casesOf as translationCases,
} from '../../bench/lazy-translation.js';
import { suites } from '../../bench/registry.js';
import { TASKS } from '../../bench/ring-cycle/tasks.js';
import { casesOf, ringCycle, runRingCycle, type Sweep } from '../../bench/ring-cycle.js';
import { compare, readReports, summary } from '../../src/cli/bench/compare.js';
import { toHtml } from '../../src/cli/bench/html.js';
import { ticks } from '../../src/cli/bench/plots.js';
import { bench } from '../../src/cli/bench.js';
import { Failure } from '../../src/cli/errors.js';
import { type Report, spread } from '../../src/cli/report.js';
import { inFolder, vring } from './run.js';

const TINY: Sweep = {
  bursts: [32],
  segments: [1],
  sizes: [],
  eventIdx: [true],
  times: { isolates: 1, runs: 2, runMs: 1, warmUpMs: 1 },
  heapBuffers: 100_000,
};

/** Ring, event index, in-order use. */
const SHAPES = [
  ['split', true, false],
  ['split', false, false],
  ['split', true, true],
  ['packed', true, false],
  ['packed', false, false],
  ['packed', true, true],
] as const;

const RESULT = ['name', 'engine', 'ring', 'unit', 'median', 'min', 'max', 'runs', 'params'];
const RATIO = ['name', 'engine', 'ring', 'params', 'median', 'min', 'max', 'reported'];

describe('bench', () => {
  let report: Report;
  before(async function () {
    this.timeout(300_000);
    report = await runRingCycle(TINY, { start: () => {}, step: () => {} });
  });

  it('spread: median, minimum, maximum', () => {
    expect(spread([3, 1, 2])).to.deep.equal({ median: 2, min: 1, max: 3 });
    expect(spread([4, 1, 2, 3])).to.deep.equal({ median: 2.5, min: 1, max: 4 });
    expect(spread([5])).to.deep.equal({ median: 5, min: 5, max: 5 });
  });

  describe('ring-cycle', () => {
    it('varies one parameter at a time, and burst × segments; leaves out what does not fit', () => {
      const cases = casesOf(
        {
          ...TINY,
          bursts: [1, 32, 128],
          segments: [1, 4],
          sizes: [16, 4096],
          eventIdx: [true, false],
        },
        'split',
      ).map(({ params: { burst, size, segments, eventIdx } }) => [burst, size, segments, eventIdx]);
      expect(cases).to.deep.equal([
        [1, 256, 1, true],
        [32, 256, 1, true],
        [128, 256, 1, true],
        [1, 256, 4, true],
        [32, 256, 4, true],
        [16, 16, 1, true],
        [32, 4096, 1, true],
        [32, 256, 1, false],
      ]);
    });

    for (const [name, task] of Object.entries(TASKS))
      it(`${name} moves every buffer, also around the end of the indices`, async () => {
        for (const segments of [1, 2, 4])
          for (const [ring, eventIdx, inOrder] of SHAPES) {
            const { batch, buffers } = await task({ ring, size: 64, burst: 8, segments, eventIdx, inOrder });
            expect(buffers).to.be.at.least(1000);
            // The tasks throw if a buffer does not come back.
            const enough = segments === 2 && eventIdx && !inOrder ? 70_000 : 3_000;
            for (let moved = 0; moved < enough; moved += buffers) batch();
          }
      });

    it('has a result per contender and the heap of each engine', () => {
      expect(report.suite).to.equal('ring-cycle');
      for (const result of report.results) {
        expect(result).to.have.all.keys(...RESULT);
        expect(result.min).to.be.at.most(result.median);
        expect(result.median).to.be.at.most(result.max);
      }
      const timed = report.results.filter(({ unit }) => unit === 'ns/buffer');
      const engines = ['wasm', 'typescript'].flatMap((engine) =>
        ['burst', 'methods', 'single'].map((way) => `${engine}-${way} ${engine}`),
      );
      const formats = (engine: string) =>
        ['split split', 'packed packed', 'split-in-order split', 'packed-in-order packed'].map(
          (format) => `${engine}-${format.replace(' ', ` ${engine} `)}`,
        );
      expect(timed.map(({ name, engine, ring }) => `${name} ${engine} ${ring}`)).to.deep.equal([
        ...engines.map((name) => `${name} split`),
        'bare-loop none split',
        ...engines.map((name) => `${name} packed`),
        ...formats('wasm'),
        ...formats('typescript'),
      ]);
      for (const { runs, median, params } of timed) {
        expect(runs).to.equal(2);
        expect(median).to.be.greaterThan(0);
        expect(params).to.deep.equal({ burst: 32, size: 256, segments: 1, eventIdx: true });
      }
      const heap = report.results.filter(({ unit }) => unit === 'bytes');
      expect(heap.map(({ name, engine, ring }) => `${name} ${engine} ${ring}`)).to.deep.equal([
        'heap-per-buffer wasm split',
        'heap-per-buffer typescript split',
        'heap-per-buffer wasm packed',
        'heap-per-buffer typescript packed',
      ]);
    });

    it('has the ratios, each of the shape that readers rely on', () => {
      expect(report.ratios.map(({ name, ring }) => `${name} ${ring}`)).to.deep.equal([
        'wasm-burst/typescript-single split',
        'wasm-burst/typescript-burst split',
        'typescript-burst/bare-loop split',
        'wasm-burst/typescript-single packed',
        'wasm-burst/typescript-burst packed',
        ...['wasm', 'typescript'].flatMap((engine) => [
          `${engine}-packed/${engine}-split packed`,
          `${engine}-split-in-order/${engine}-split split`,
          `${engine}-packed-in-order/${engine}-packed packed`,
        ]),
      ]);
      for (const found of report.ratios) {
        expect(found).to.have.all.keys(...RATIO);
        expect(found.reported).to.equal(null);
        expect(found.min).to.be.greaterThan(0);
      }
    });
  });

  describe('lazy-translation', () => {
    const tiny = {
      chains: [
        { segments: 1, indirect: false, regions: 1 },
        { segments: 2, indirect: true, regions: 64 },
      ],
      operations: ['cycle', 'burst', 'single', 'available'] as const,
      times: { isolates: 1, runs: 2, runMs: 1, warmUpMs: 1 },
    };
    const sweep = { ...tiny, operations: [...tiny.operations] };

    for (const [name, task] of Object.entries(OPERATIONS))
      it(`${name} moves every buffer with either strategy, also around the end of the indices`, async () => {
        for (const { ring, params } of translationCases(sweep).filter(
          ({ params }) => params.operation === name,
        ))
          for (const engine of ['wasm', 'typescript'] as const)
            for (const translation of ['lazy', 'eager'] as const) {
              const { batch, buffers } = await task({
                ...params,
                ring,
                engine,
                translation,
                size: 64,
              } as Parameters<typeof task>[0]);
              expect(buffers).to.be.at.least(1000);
              // The tasks throw if a buffer does not arrive.
              const enough = ring === 'split' && name === 'burst' ? 70_000 : 3_000;
              for (let moved = 0; moved < enough; moved += buffers) batch();
            }
      });

    it('has both strategies on both engines and rings, and their ratio with what was reported', async function () {
      this.timeout(300_000);
      let steps = 0;
      let done = 0;
      const found = await runLazyTranslation(
        { ...sweep, chains: [tiny.chains[0]], operations: ['burst', 'available'] },
        { start: (n) => (steps = n), step: () => done++ },
      );
      expect(done).to.equal(steps);
      expect(found.results).to.have.length(2 * 2 * 2 * 2);
      for (const result of found.results) expect(result).to.have.all.keys(...RESULT);
      expect(
        found.ratios.map(({ name, engine, ring, params, reported }) => [
          name,
          engine,
          ring,
          params.operation,
          reported,
        ]),
      ).to.deep.equal(
        ['wasm', 'typescript'].flatMap((engine) =>
          [['burst', 1.06] as const, ['available', null] as const].flatMap(([operation, reported]) =>
            ['split', 'packed'].map((ring) => ['lazy/eager', engine, ring, operation, reported]),
          ),
        ),
      );
      const html = toHtml([{ suite: lazyTranslation, report: found }]);
      expect(html).not.to.include('NaN');
      expect(html).not.to.include('undefined');
      expect(html).to.include('burst, 1 direct');
      expect(html).to.include('lazy / eager · packed · typescript');
    });
  });

  describe('comparison', () => {
    const scaled = (from: Report, factor: number, ratios = factor): Report => ({
      ...from,
      results: from.results.map((result) => ({
        ...result,
        ...spread([result.min, result.median, result.max].map((value) => value * factor)),
      })),
      ratios: from.ratios.map((ratio) => ({
        ...ratio,
        ...spread([ratio.min, ratio.median, ratio.max].map((value) => value * ratios)),
      })),
    });

    it('the same report: nothing changed', () => {
      const [{ changes, compared, added, gone }] = compare([report], [report]);
      expect({ changes, added, gone }).to.deep.equal({ changes: [], added: 0, gone: 0 });
      expect(compared).to.equal(report.results.length + report.ratios.length);
    });

    it('ranges that do not overlap: what changed, and whether it is better', () => {
      // All times as before but one.
      const now = scaled(report, 1, 1e3);
      const slow = now.results.findIndex(({ unit }) => unit === 'ns/buffer');
      now.results[slow] = scaled(report, 1e3).results[slow];
      const [{ changes, drift }] = compare([report], [now]);
      expect(drift).to.equal(1);
      const ratios = changes.filter(({ kind }) => kind === 'ratio');
      expect(ratios).to.have.length(report.ratios.length);
      expect(changes.indexOf(ratios[ratios.length - 1])).to.equal(ratios.length - 1);
      for (const { gain } of ratios) expect(gain).to.be.closeTo(1e3, 1);
      const times = changes.filter(({ unit }) => unit === 'ns/buffer');
      expect(times).to.have.length(1);
      expect(times[0].name).to.equal(report.results[slow].name);
      for (const { gain } of times) expect(gain).to.be.closeTo(1e-3, 1e-6);
    });

    it('all times longer: one figure, that is taken out of each', () => {
      const now = scaled(report, 3, 1);
      now.results[1] = scaled(report, 3e-3).results[1];
      const [found] = compare([report], [now]);
      expect(found.drift).to.be.closeTo(3, 1e-9);
      expect(found.changes.filter(({ unit }) => unit === 'ns/buffer')).to.have.length(1);
      expect(found.changes[0].gain).to.be.closeTo(1e3, 1);
      expect(summary(found)).to.include('Times as a whole are ×3.00 of before');
    });

    it('ranges that touch: noise', () => {
      const one = { ...report.ratios[0], median: 2, min: 1, max: 3 };
      const at = (min: number, max: number) => ({
        ...report,
        results: [],
        ratios: [{ ...one, median: (min + max) / 2, min, max }],
      });
      const before = [{ ...report, results: [], ratios: [one] }];
      expect(compare(before, [at(3, 9)])[0].changes).to.have.length(0);
      expect(compare(before, [at(0.1, 1)])[0].changes).to.have.length(0);
      expect(compare(before, [at(3.001, 9)])[0].changes).to.have.length(1);
      expect(compare(before, [at(0.1, 0.999)])[0].changes).to.have.length(1);
    });

    it('what was measured once: a tenth of it, or half a unit', () => {
      const heap = (median: number): Report => ({
        ...report,
        ratios: [],
        results: [{ ...report.results[0], unit: 'bytes', runs: 1, median, min: median, max: median }],
      });
      expect(compare([heap(0)], [heap(0.9)])[0].changes).to.have.length(0);
      expect(compare([heap(0)], [heap(16)])[0].changes).to.have.length(1);
      expect(compare([heap(16)], [heap(0)])[0].changes[0].gain).to.be.greaterThan(1);
      expect(compare([heap(100)], [heap(115)])[0].changes).to.have.length(0);
    });

    it('another machine: ratios alone; new and missing figures are counted', () => {
      const other = { ...scaled(report, 1e3, 1), machine: { ...report.machine, cpu: 'another' } };
      const [found] = compare([other], [report]);
      expect(found.changes).to.have.length(0);
      expect(found.compared).to.equal(report.ratios.length);
      expect(found.machines).to.include('cpu another → ');
      const less = { ...report, ratios: report.ratios.slice(1) };
      expect(compare([less], [report])[0]).to.include({ added: 1, gone: 0 });
      expect(compare([report], [less])[0]).to.include({ added: 0, gone: 1 });
      expect(compare([{ ...report, suite: 'x' }], [report])).to.deep.equal([]);
    });

    it('a file that is something else is refused with its name and what is wrong, before anything is measured', async () => {
      await inFolder(async (folder) => {
        const file = join(folder, 'old.json');
        const [row] = report.results;
        const bad: [string, string][] = [
          ['{', 'is not JSON'],
          ['null', 'there is no object'],
          ['[1]', 'there is no object in report 0'],
          [JSON.stringify({ ...report, suite: 1 }), 'suite is no text'],
          [JSON.stringify({ ...report, machine: [] }), 'machine is no object'],
          [JSON.stringify({ ...report, ratios: {} }), 'ratios is no array'],
          [JSON.stringify({ ...report, results: [{ ...row, unit: null }] }), 'results[0].unit is no text'],
          [JSON.stringify({ ...report, results: [{ ...row, min: '1' }] }), 'results[0] has no median'],
          [JSON.stringify({ ...report, results: [{ ...row, min: 9, max: 1 }] }), 'its median is not between'],
          [JSON.stringify({ ...report, results: [{ ...row, params: 1 }] }), 'results[0].params is no object'],
        ];
        for (const [text, problem] of bad) {
          await writeFile(file, text);
          const { code, out, err } = await vring('bench', 'ring-cycle', '--compare', file);
          expect(code).to.equal(1);
          expect(out).to.equal('');
          expect(err).to.include(file).and.to.include(problem);
        }
        const { code, err } = await vring('bench', 'ring-cycle', '--compare', join(folder, 'none'));
        expect(code).to.equal(1);
        expect(err).to.include('cannot be read');
        await writeFile(file, JSON.stringify(report));
        expect(await readReports(file)).to.deep.equal([report]);
      });
    });
  });

  describe('heap', () => {
    const kept: unknown[] = [];
    const task = (batch: () => void) => ({ buffers: 1000, batch });

    it('sees one small object per buffer', async () => {
      const { bytes, buffers } = await measureHeap(
        task(() => {
          for (let i = 0; i < 1000; i++) kept[i & 15] = { i };
        }),
        200_000,
      );
      expect(buffers).to.equal(200_000);
      expect(bytes).to.be.within(16, 80);
    });

    it('sees objects when collections are frequent, and says that there were some', async () => {
      const { bytes, collections } = await measureHeap(
        task(() => {
          for (let i = 0; i < 1000; i++) kept[i & 15] = new Array(512).fill(i);
        }),
        50_000,
      );
      expect(bytes).to.be.within(1000, 9000);
      expect(collections).to.be.greaterThan(0);
    });

    it('sees nothing where nothing is allocated', async () => {
      const numbers = new Uint32Array(1000);
      const { bytes } = await measureHeap(
        task(() => {
          for (let i = 0; i < 1000; i++) numbers[i] += i;
        }),
        5_000_000,
      );
      expect(bytes).to.be.below(0.1);
    });
  });

  describe('HTML', () => {
    const page = (): string => toHtml([{ suite: ringCycle, report }]);

    it('needs nothing but itself', () => {
      const html = page();
      expect(html).to.match(/^<!doctype html>/);
      expect(html).not.to.match(/<(script|link|img|iframe|object|embed|base)\b/i);
      expect(html).not.to.match(/\b(src|href|srcset|action)\s*=/i);
      expect(html).not.to.match(/url\(|@import/i);
      expect(html.replaceAll('http://www.w3.org/', '')).not.to.match(/https?:/);
    });

    it('has a plot per parameter and per ratio, that fit any width, and all rows', () => {
      const html = page();
      const plots = [...html.matchAll(/<figure>.*?<svg([^>]*)>/gs)].map(([, attributes]) => attributes);
      const ratios = new Set(report.ratios.map(({ name, ring }) => `${name} ${ring}`));
      expect(plots.length).to.equal(2 * 3 + 2 + ratios.size);
      for (const attributes of plots) {
        expect(attributes).to.match(/viewBox="0 0 460 \d+"/);
        expect(attributes).not.to.match(/\b(width|height)=/);
      }
      expect(html).not.to.include('NaN');
      expect(html).not.to.include('undefined');
      expect(html.match(/<tr>/g)).to.have.length(3 + report.results.length + report.ratios.length);
      expect(html).to.include('prefers-color-scheme: dark');
    });

    it('shows the reported figure beside a ratio, and escapes names', () => {
      const ratios = [{ ...report.ratios[0], name: 'a<b/c', reported: 1.161 }];
      const html = toHtml([{ suite: ringCycle, report: { ...report, ratios } }]);
      expect(html).to.include('a&lt;b / c');
      expect(html).not.to.include('a<b');
      expect(html).to.include('var(--target)');
      expect(html).to.include('<td class="n">1.161</td>');
    });

    it('axes have round numbers', () => {
      expect(ticks(9, 130)).to.deep.equal([10, 20, 50, 100]);
      expect(ticks(0.05, 3)).to.deep.equal([0.05, 0.1, 0.2, 0.5, 1, 2]);
      expect(ticks(0.2, 4000)).to.deep.equal([0.3, 1, 3, 10, 30, 100, 300, 1000, 3000]);
    });
  });

  describe('command', () => {
    const io = {
      lines: [] as string[],
      out: (text: string) => io.lines.push(text),
      err: () => {},
      columns: 100,
    };
    const suite = (): Suite => ({ ...ringCycle, run: async () => report });

    it('prints tables and writes JSON and HTML', async () => {
      await inFolder(async (folder) => {
        const json = join(folder, 'r.json');
        const html = join(folder, 'r.html');
        await bench([suite()], { json, html }, io);
        expect(JSON.parse(await readFile(json, 'utf8'))).to.deep.equal(report);
        expect(await readFile(html, 'utf8')).to.equal(toHtml([{ suite: ringCycle, report }]));
        const text = io.lines.join('\n');
        for (const { name } of report.results) expect(text).to.include(name);
        for (const { name } of report.ratios) expect(text).to.include(name.replace('/', ' / '));
        expect(text).to.match(/×\d+\.\d\d \(/);

        await bench([suite(), suite()], { json }, io);
        expect(JSON.parse(await readFile(json, 'utf8'))).to.deep.equal([report, report]);
      });
    });

    it('all: every suite; what changed since an old file, in the terminal and in the page', async () => {
      await inFolder(async (folder) => {
        const old = join(folder, 'old.json');
        const html = join(folder, 'r.html');
        const slower = {
          ...report,
          ratios: report.ratios.map((ratio) => ({ ...ratio, ...spread([0.001, 0.002]) })),
        };
        await writeFile(old, JSON.stringify([slower]));
        io.lines.length = 0;
        await bench(
          [suite(), { ...suite(), name: 'another', run: async () => ({ ...report, suite: 'another' }) }],
          { compare: old, html },
          io,
        );
        const text = io.lines.join('\n');
        expect(text).to.include(`compared with ${old}`);
        expect(text).to.include(
          `${report.ratios.length} of ${report.results.length + report.ratios.length} figures changed`,
        );
        expect(text).to.include('another: not in that file');
        expect(text).to.match(/×0\.00 \(0\.00–0\.00\)/);
        const page = await readFile(html, 'utf8');
        expect(page.match(/<tr class="better">/g)).to.have.length(report.ratios.length);
        expect(page.match(/<h1>/g)).to.have.length(2);
        expect(page).not.to.include('NaN');
      });
    });

    it('a suite that lacks something is left out of several, with the reason', async () => {
      await inFolder(async (folder) => {
        const json = join(folder, 'r.json');
        const errors: string[] = [];
        const needy: Suite = {
          ...suite(),
          name: 'needy',
          onRequest: true,
          run: async () => {
            throw new Failure('there is no such program');
          },
        };
        await bench([needy, suite(), suite()], { json }, { ...io, err: (text) => errors.push(text) });
        expect(errors).to.deep.equal(['needy: left out: there is no such program']);
        expect(JSON.parse(await readFile(json, 'utf8'))).to.deep.equal([report, report]);
        for (const chosen of [[needy], [{ ...needy, onRequest: false }, suite()]]) {
          const failed = await bench(chosen, {}, io).catch((error: unknown) => error);
          expect(failed).to.be.instanceOf(Failure);
        }
      });
    });

    it('an unknown suite: which ones there are, exit code 2', async () => {
      expect(await vring('bench', 'ring-cycel')).to.deep.equal({
        code: 2,
        out: '',
        err: `error: unknown suite 'ring-cycel'; there are: ${[...suites.map(({ name }) => name), 'all'].join(', ')}\n`,
      });
    });

    it('a file that cannot be written is reported before anything is measured', async () => {
      for (const option of ['--json', '--html']) {
        const { code, err } = await vring('bench', 'ring-cycle', option, '/no/such/folder/x');
        expect(code).to.equal(1);
        expect(err).to.include('/no/such/folder/x: cannot be written');
      }
    });
  });
});
