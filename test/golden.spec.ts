import { spawn } from 'node:child_process';
import { copyFile, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';
import { Mismatch } from './golden/mismatch.js';
import { replay, SIDES } from './golden/replay.js';
import { parseTrace, readTrace, type Trace, traceFiles } from './golden/trace.js';
import { forEachEngine } from './support/engines.js';

const FOLDER = fileURLToPath(new URL('data/golden', import.meta.url));

const traces = traceFiles(FOLDER).map(readTrace);

describe('traces of an independent driver', () => {
  it('are there', () => {
    expect(traces.filter(({ ring }) => ring === 'split')).to.have.length(19);
    expect(traces.filter(({ ring }) => ring === 'packed')).to.have.length(19);
  });

  forEachEngine((load) => {
    for (const side of SIDES)
      describe(`our ${side}`, () => {
        for (const trace of traces) it(`${trace.name}: ${trace.note}`, () => replay(trace, side, load));
      });

    describe('are not met with any one thing wrong in them', () => {
      type Any = Record<string, never>;
      const flip = (field: string) => (step: Any) => {
        step[field] = !step[field] as never;
      };
      const bump = (field: string) => (step: Any) => {
        step[field] = ((step[field] as number) + 1) as never;
      };
      const hex = (field: string, at: number) => (step: Any) => {
        const text = step[field] as string;
        const digit = (Number.parseInt(text.at(at) as string, 16) ^ 1).toString(16);
        const index = at < 0 ? text.length + at : at;
        step[field] = (text.slice(0, index) + digit + text.slice(index + 1)) as never;
      };
      /** Changes the last step of this kind that has the field, if one is named. */
      async function spoil(
        name: string,
        side: (typeof SIDES)[number],
        op: string,
        change: (step: never) => void,
        field?: string,
      ): Promise<void> {
        const trace = structuredClone(traces.find((t) => t.name === name)) as Trace;
        const step = trace.steps.findLast((s) => s.op === op && (field === undefined || field in s));
        change(step as never);
        let error: unknown;
        await replay(trace, side, load).catch((thrown) => {
          error = thrown;
        });
        expect(error, `${side} ${op}`).to.be.instanceOf(Mismatch);
      }

      it('split', async () => {
        const name = 'split_indirect_basic_ev';
        await spoil(name, 'driver', 'kick_prepare', flip('ret'));
        await spoil(name, 'driver', 'get_buf', bump('num_free'));
        await spoil(name, 'driver', 'add', hex('avail', 4));
        await spoil(name, 'driver', 'device_need_interrupt', flip('ret'));
        await spoil(name, 'driver', 'add', (step: Any) => {
          const { id } = step as unknown as { id: number };
          hex('desc', id * 32)(step);
        });
        await spoil(name, 'device', 'device_need_interrupt', flip('ret'));
        await spoil(name, 'device', 'device_pop', (step: Any) => {
          step.ret = { id: 0, ndesc: 1, out: [], in: [] } as never;
        });
        await spoil(name, 'device', 'device_push', (step: Any) => {
          hex('2', 3)((step.writes as never)[0]);
        });
        await spoil(name, 'device', 'device_enable_notify', hex('used', -1));
      });

      it('packed', async () => {
        const name = 'packed_indirect_basic_ev';
        const slot = (at: number) => (step: Any) => {
          const { slot } = step as unknown as { slot: number };
          hex('desc', slot * 32 + at)(step);
        };
        await spoil(name, 'driver', 'kick_prepare', flip('ret'));
        await spoil(name, 'driver', 'get_buf', bump('num_free'));
        await spoil('packed_direct_wrap_num5_ev', 'driver', 'get_buf', bump('len'), 'len');
        await spoil(name, 'driver', 'get_buf', bump('ret_token'));
        await spoil(name, 'driver', 'device_need_interrupt', flip('ret'));
        await spoil(name, 'driver', 'add', slot(16)); // len
        await spoil(name, 'driver', 'add', slot(29)); // WRITE, INDIRECT
        await spoil(name, 'driver', 'add', slot(30)); // AVAIL, USED
        await spoil('packed_direct_basic_ev', 'driver', 'add', slot(0)); // addr
        for (const at of [0, 16, 28]) // addr, len, WRITE of a table's entry
          await spoil(
            name,
            'driver',
            'add',
            (step: Any) => {
              hex('bytes', at)(step.indirect as never);
            },
            'indirect',
          );
        const callbacks = 'packed_direct_callbacks_ev';
        await spoil(callbacks, 'driver', 'poll', flip('ret'));
        await spoil(callbacks, 'driver', 'interrupt', (step: Any) => {
          step.ret = 'HANDLED' as never;
        });
        await spoil(callbacks, 'driver', 'disable_cb', hex('driver', 5), 'driver'); // flags
        await spoil(callbacks, 'driver', 'enable_cb_delayed', hex('driver', 1), 'driver'); // off_wrap
        await spoil(callbacks, 'driver', 'enable_cb_delayed', hex('driver', 2), 'driver'); // its wrap bit
        await spoil(callbacks, 'driver', 'enable_cb_delayed', flip('ret'));
        await spoil(name, 'device', 'device_need_interrupt', flip('ret'));
        await spoil(name, 'device', 'device_pop', (step: Any) => {
          step.ret = { id: 0, ndesc: 1, out: [], in: [] } as never;
        });
        for (const [write, at] of [
          [0, 1], // len
          [0, 9], // id
          [1, 1], // WRITE
          [1, 2], // USED
        ])
          await spoil(name, 'device', 'device_push', (step: Any) => {
            hex('2', at)((step.writes as never)[write]);
          });
        await spoil(name, 'device', 'device_enable_notify', hex('device', 1));
      });
    });
  });
});

describe('a trace file', () => {
  const step = (fields: object) => ({ num_free: 1, ...fields });
  const init = step({ op: 'init', desc: '00'.repeat(16), avail: '00'.repeat(8), used: '00'.repeat(14) });
  const trace = { name: 'x', ring: 'split', num: 1, features: [], callback: true, note: '', steps: [init] };
  const parse = (value: unknown) => parseTrace(JSON.stringify(value), 'some/file.json');

  it('is read', () => {
    expect(parse(trace)).to.deep.equal(trace);
  });

  for (const [what, value, message] of [
    ['is a list', [], 'name is malformed: missing'],
    ['is null', null, 'not a trace'],
    ['has another ring', { ...trace, ring: 'round' }, 'ring is malformed: "round"'],
    ['has no size', { ...trace, num: 0 }, 'num is malformed: 0'],
    ['has no steps', { ...trace, steps: [] }, 'no steps'],
    [
      'has an unknown op',
      { ...trace, steps: [init, step({ op: 'toString' })] },
      'step 1: unknown op "toString"',
    ],
    [
      'does not begin with init',
      { ...trace, steps: [{ ...init, op: 'disable_cb' }] },
      'step 0: init must be',
    ],
    [
      'lacks an area at first',
      { ...trace, steps: [{ ...init, used: undefined }] },
      'step 0 must have all areas, used',
    ],
    [
      'has an area of another size',
      { ...trace, steps: [{ ...init, avail: '00' }] },
      'step 0 (init): avail has 1 bytes, not 8',
    ],
    [
      'has bytes that are none',
      { ...trace, steps: [{ ...init, avail: '0g' }] },
      'step 0 (init): avail is malformed: "0g"',
    ],
    [
      'lacks a result',
      { ...trace, steps: [init, step({ op: 'kick_prepare' })] },
      'step 1 (kick_prepare): ret is malformed: missing',
    ],
    [
      'lacks the head of what was added',
      { ...trace, steps: [init, step({ op: 'add', out: [[0, 1]], in: [], token: 1, ret: 0 })] },
      'step 1 (add): id is missing',
    ],
    [
      'has a write outside the area',
      { ...trace, steps: [init, step({ op: 'device_raw', writes: [['used', 13, '0000']] })] },
      'step 1 (device_raw): a write leaves the area used',
    ],
  ] as const)
    it(`that ${what} is refused`, () => {
      expect(() => parse(value)).to.throw(Error, `some/file.json: ${message}`);
    });

  it('that is no JSON is refused', () => {
    expect(() => parseTrace('{', 'some/file.json')).to.throw(Error, 'some/file.json: not JSON: ');
  });
});

describe('the command golden', () => {
  let folder: string;

  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'vring-golden-'));
  });

  after(() => rm(folder, { recursive: true }));

  async function run(...args: string[]): Promise<{ code: number; lines: string[] }> {
    const script = fileURLToPath(new URL('../scripts/golden.ts', import.meta.url));
    const child = spawn(process.execPath, ['--import', 'tsx', script, ...args]);
    let text = '';
    child.stdout.on('data', (chunk) => (text += chunk));
    const code = await new Promise<number>((resolve) => child.on('close', resolve));
    return { code, lines: text.trimEnd().split('\n') };
  }

  it('replays a folder on both engines and both sides', async () => {
    await copyFile(join(FOLDER, 'split_direct_full.json'), join(folder, 'a.json'));
    expect(await run(folder)).to.deep.equal({
      code: 0,
      lines: [
        'ok    wasm driver        split_direct_full',
        'ok    wasm device        split_direct_full',
        'ok    typescript driver  split_direct_full',
        'ok    typescript device  split_direct_full',
        '4 passed, 0 failed',
      ],
    });
  });

  it('fails for a trace that is not met and for a file that is none', async () => {
    const trace = readTrace(join(FOLDER, 'split_direct_full.json'));
    const step = trace.steps.find(({ op }) => op === 'kick_prepare');
    (step as { ret: boolean }).ret = false;
    await writeFile(join(folder, 'b.json'), JSON.stringify({ ...trace, name: 'wrong' }));
    await writeFile(join(folder, 'c.json'), '[]');
    const { code, lines } = await run(folder);
    expect(code).to.equal(1);
    expect(lines).to.deep.equal([
      'ok    wasm driver        split_direct_full',
      'ok    wasm device        split_direct_full',
      'ok    typescript driver  split_direct_full',
      'ok    typescript device  split_direct_full',
      'FAIL  wasm driver        wrong: step 9 (kick_prepare): kickPrepare: ours true, trace false',
      'ok    wasm device        wrong',
      'FAIL  typescript driver  wrong: step 9 (kick_prepare): kickPrepare: ours true, trace false',
      'ok    typescript device  wrong',
      `FAIL  ${join(folder, 'c.json')}: name is malformed: missing`,
      '6 passed, 3 failed',
    ]);
  });

  it('fails for a folder without traces', async () => {
    const { code, lines } = await run(join(folder, 'nowhere'));
    expect(code).to.equal(1);
    expect(lines.at(-1)).to.equal('0 passed, 0 failed');
  });
});
