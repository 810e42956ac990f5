import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'chai';
import { measureHeap } from '../../bench/harness/heap.js';
import type { Suite } from '../../bench/harness/suite.js';
import { suites } from '../../bench/registry.js';
import { TASKS } from '../../bench/ring-cycle/tasks.js';
import { casesOf, ringCycle, runRingCycle, type Sweep } from '../../bench/ring-cycle.js';
import { toHtml } from '../../src/cli/bench/html.js';
import { ticks } from '../../src/cli/bench/plots.js';
import { bench } from '../../src/cli/bench.js';
import { type Report, spread } from '../../src/cli/report.js';
import { inFolder, vring } from './run.js';

const TINY: Sweep = {
  bursts: [32],
  segments: [1],
  sizes: [],
  eventIdx: [true],
  runs: 2,
  runMs: 1,
  warmUpMs: 1,
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
    this.timeout(60_000);
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

    it('an unknown suite: which ones there are, exit code 2', async () => {
      expect(await vring('bench', 'ring-cycel')).to.deep.equal({
        code: 2,
        out: '',
        err: `error: unknown suite 'ring-cycel'; there are: ${suites.map(({ name }) => name).join(', ')}\n`,
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
