import { readdirSync, readFileSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { stripVTControlCharacters } from 'node:util';
import { expect } from 'chai';
import fc from 'fast-check';
import { Failure, UsageError } from '../../src/cli/errors.js';
import { dumpOfJson } from '../../src/cli/inspect/json-dump.js';
import { print } from '../../src/cli/inspect/print.js';
import { inspectSaved } from '../../src/cli/inspect/saved.js';
import { inspectFile } from '../../src/cli/inspect/source.js';
import { Feature, loadEngine, type RingFormat, VringError } from '../../src/index.js';
import { inFolder, vring } from './run.js';

const GOLDEN = fileURLToPath(new URL('../data/golden/', import.meta.url));
const golden = (name: string) => join(GOLDEN, `${name}.json`);

/** A queue with a buffer in each state: used and not taken, filled, available. */
async function scene(ring: RingFormat) {
  const host = await loadEngine({ engine: 'typescript', size: 65536 });
  const features = [Feature.INDIRECT_DESC, Feature.EVENT_IDX];
  const driver = host.driverQueue({ ring, size: 8, features, indirect: { memory: 512 } });
  const device = host.deviceQueue({ ring, size: 8, features, areas: driver.areas });
  driver.add([{ address: 0x4000, length: 16 }], [{ address: 0x5000, length: 2048 }], 7);
  driver.add([{ address: 0x6000, length: 1 }], [], 8);
  const first = device.pop();
  const second = device.pop();
  if (first === undefined || second === undefined) throw new Error('nothing to pop');
  device.push(second, 0);
  device.fill(first, 60, 0);
  driver.add([], [{ address: 0x7000, length: 100 }], 9);
  const { descriptor, driver: avail, device: used } = driver.areas;
  const image = new Uint8Array(host.buffer).slice();
  return { host, driver, device, image, areas: { descriptor, avail, used } };
}

const save = (folder: string, name: string, what: unknown) => {
  const file = join(folder, name);
  return writeFile(file, what instanceof Uint8Array ? what : JSON.stringify(what)).then(() => file);
};

describe('vring inspect', () => {
  for (const ring of ['split', 'packed'] as const) {
    it(`a saved ${ring} queue with its memory: what the queue itself says`, () =>
      inFolder(async (folder) => {
        const { driver, device, image } = await scene(ring);
        const memory = ['--memory', await save(folder, 'image', image), '--json'];
        for (const queue of [driver, device]) {
          const file = await save(folder, 'queue.json', queue.save());
          const { code, out, err } = await vring('inspect', file, ...memory);
          expect(err).to.equal('');
          expect(code).to.equal(0);
          const said = queue.inspect();
          // Whether tables were negotiated, a device's state does not say.
          if (said.side === 'device') said.features.splice(said.features.indexOf('INDIRECT_DESC'), 1);
          expect(JSON.parse(out)).to.deep.equal(said);
        }
      }));

    it(`a saved ${ring} queue alone: what it remembers`, () =>
      inFolder(async (folder) => {
        const { driver, device } = await scene(ring);
        for (const queue of [driver, device]) {
          const file = await save(folder, 'queue.json', queue.save());
          const { code, out } = await vring('inspect', file);
          expect(code).to.equal(0);
          expect(out).to.match(new RegExp(`^(Driver|Device) of a ${ring} ring of 8`));
          expect(out).to.include('--memory').and.not.to.include('direction');
          const { out: json } = await vring('inspect', file, '--json');
          expect(JSON.parse(json)).to.include({ ring, size: 8 }).and.not.to.have.property('pending');
        }
      }));
  }

  it('prints a driver as one reads it', () =>
    inFolder(async (folder) => {
      const { driver, image } = await scene('split');
      const file = await save(folder, 'driver.json', driver.save());
      const { out } = await vring('inspect', file, '--memory', await save(folder, 'image', image));
      const { areas } = driver.inspect();
      expect(out.split('\n')).to.deep.equal([
        'Driver of a split ring of 8  INDIRECT_DESC  EVENT_IDX',
        '',
        'position    next buffer at 3, next used entry at 0',
        'avail       idx 3, flags none, used_event 0',
        'used        idx 1, flags none, avail_event 2',
        'callbacks   enabled',
        'not kicked  3 buffers',
        'free        5 descriptors: 3–7',
        `tables      32 of 512 bytes at ${driver.inspect().tables.address} in use`,
        `areas       descriptor ${areas.descriptor}, driver ${areas.driver}, device ${areas.device}`,
        'counts      added 3, bytesOut 17, indirect 1',
        '',
        'In flight: 3 buffers',
        'id  token  descriptors  writable  table     direction  address  length',
        '──────────────────────────────────────────────────────────────────────',
        ` 0      7  0               2,048  ${driver.inspect().tables.address} × 2  out         0x4000      16`,
        '                                            in          0x5000   2,048',
        ' 1      8  1                   0            out         0x6000       1',
        ' 2      9  2                 100            in          0x7000     100',
        '',
        'Used and not taken: 1 entry',
        'slot  id  length',
        '────────────────',
        '   0   1       0',
        '',
      ]);
    }));

  it('says what was written over, and what is wrong', () =>
    inFolder(async (folder) => {
      const { device, image, areas } = await scene('packed');
      image.fill(0xff, areas.descriptor + 32, areas.descriptor + 40); // the address of the buffer that is pending
      const file = await save(folder, 'device.json', device.save());
      const { out } = await vring('inspect', file, '--memory', await save(folder, 'image', image));
      expect(out).to.match(/filled \(60 bytes, next\)/);
      expect(out).to.include('id 0: its slot was written over since');
      expect(out).to.include('✗ slot 2: segment at 0xffffffffffffffff, length 100, is outside every region');
    }));

  it('paints for a terminal only, and only paints', async () => {
    for (const name of readdirSync(GOLDEN).filter((file) => /ooo|badid|full/.test(file))) {
      const inspected = await inspectFile(join(GOLDEN, name), {});
      const plain = print(inspected, false);
      const painted = print(inspected, true);
      expect(painted).to.include('\x1b[');
      expect(stripVTControlCharacters(plain)).to.equal(plain);
      expect(stripVTControlCharacters(painted)).to.equal(plain);
    }
  });

  it('a dump, a memory image and a trace of the same ring say the same', () =>
    inFolder(async (folder) => {
      for (const ring of ['split', 'packed'] as const) {
        const { image, areas } = await scene(ring);
        const hex = (from: number, bytes: number) =>
          Buffer.from(image.subarray(from, from + bytes)).toString('hex');
        const [availBytes, usedBytes] = ring === 'split' ? [22, 70] : [4, 4];
        const names = ring === 'split' ? ['desc', 'avail', 'used'] : ['desc', 'driver', 'device'];
        const dumped = [
          hex(areas.descriptor, 128),
          hex(areas.avail, availBytes),
          hex(areas.used, usedBytes).toUpperCase(),
        ];
        const dump = Object.fromEntries(names.map((name, i) => [name, dumped[i]]));
        const one = await save(folder, 'dump.json', { ring, size: 8, ...dump });
        // The areas change in different steps, and after the one that is asked for.
        const steps = [
          { desc: '00'.repeat(128), [names[1]]: dump[names[1]], [names[2]]: dump[names[2]] },
          { desc: dump.desc },
          {},
          { desc: 'ff'.repeat(128) },
        ];
        const trace = await save(folder, 'trace.json', { ring, num: 8, steps });
        const whole = await save(folder, 'image', image);
        const place = ['--ring', ring, '--size', '8'];
        place.push('--descriptor', `0x${areas.descriptor.toString(16)}`);
        place.push('--driver', `${areas.avail}`, '--device', `${areas.used}`);
        const all = [
          await vring('inspect', one, '--json'),
          await vring('inspect', trace, '--json', '--step', '2'),
          await vring('inspect', whole, '--json', ...place),
        ].map(({ code, out, err }) => {
          expect(err).to.equal('');
          expect(code).to.equal(0);
          // The tables are in the image alone.
          return JSON.parse(out, (key, value) =>
            key === 'segments' || key === 'problem' || key === 'writable' ? undefined : value,
          );
        });
        expect(all[1]).to.deep.equal(all[0]);
        expect(all[2]).to.deep.equal(all[0]);
        const { out } = await vring('inspect', whole, ...place);
        expect(out).to.match(new RegExp(`^${ring === 'split' ? 'Split' : 'Packed'} ring of 8`));
        expect(out).to.include('0x7000');
        // Of the packed ring the slot that refers to the table was written over.
        expect(out.includes('2,048')).to.equal(ring === 'split');
      }
    }));

  describe('finds the buffers that are with the device in the traces of another driver', () => {
    for (const name of readdirSync(GOLDEN).filter((file) => file.endsWith('.json') && !/badid/.test(file)))
      it(name, () => {
        const trace = JSON.parse(readFileSync(join(GOLDEN, name), 'utf8'));
        const open = new Map<number, number>();
        let inOrder = true;
        for (const [step, { op, id, ret, out, in: in_ }] of trace.steps.entries()) {
          if (op === 'add' && ret === 0) open.set(id, out.length + in_.length);
          if (op === 'device_push') {
            if (id !== open.keys().next().value) inOrder = false;
            open.delete(id);
          }
          if (op === 'device_raw') break;
          if (op === 'cycles') continue;
          const dump = dumpOfJson(trace, step);
          expect(dump.problems).to.deep.equal([]);
          if (dump.ring === 'split') {
            const { exact, count, buffers } = dump.outstanding;
            expect(count).to.equal(open.size);
            const listed = new Map(buffers.map((buffer) => [buffer.id, buffer]));
            if (exact || inOrder) expect(buffers).to.have.length(open.size);
            for (const [head, segments] of open) {
              expect(listed.get(head)?.segments, `step ${step}, head ${head}`).to.have.length(segments);
              expect(listed.get(head)).to.not.have.property('problem');
            }
          } else if (inOrder) {
            for (const [buffer, segments] of open) {
              const found = dump.available.filter((chain) => chain.id === buffer);
              expect(found.map((chain) => chain.segments.length)).to.include(segments);
            }
          }
        }
      });
  });

  it('writes JSON to a file beside the tables', () =>
    inFolder(async (folder) => {
      const json = join(folder, 'out.json');
      const { code, out } = await vring(
        'inspect',
        golden('split_direct_ooo'),
        '--step',
        '12',
        '--json',
        json,
      );
      expect(code).to.equal(0);
      expect(out).to.include('Available and not used: 2 buffers');
      expect(JSON.parse(await readFile(json, 'utf8')).outstanding.count).to.equal(2);
    }));

  describe('refuses, in one line', () => {
    const refused = async (code: number, message: string | RegExp, ...argv: string[]) => {
      const result = await vring('inspect', ...argv);
      expect(result.out).to.equal('');
      expect(result.err).to.match(typeof message === 'string' ? new RegExp(message) : message);
      expect(result.err.trimEnd().split('\n').length).to.be.at.most(2);
      expect(result.code).to.equal(code);
    };

    it('options that make no sense', async () => {
      const trace = golden('split_direct_ooo');
      await refused(2, 'missing required argument', '--json', trace);
      await refused(2, 'there is no step 9999: the trace has steps 0 to', trace, '--step', '9999');
      await refused(2, 'Give a whole number from 0', trace, '--step', '-1');
      await refused(2, 'Give a whole number from 0', trace, '--descriptor', '1e3');
      await refused(
        2,
        'a memory image needs --size, --driver, --device, too',
        trace,
        '-r',
        'split',
        '--descriptor',
        '0',
      );
      await refused(2, '--memory is for saved queues', trace, '--memory', trace);
      const place = ['-r', 'split', '-s', '8', '--descriptor', '0', '--driver', '128', '--device', '256'];
      await refused(2, 'for a memory image|are for JSON files', trace, ...place, '--step', '1');
      await inFolder(async (folder) => {
        const { driver } = await scene('split');
        const file = await save(folder, 'driver.json', driver.save());
        await refused(2, '--step is for traces', file, '--step', '1');
        const dump = await save(folder, 'dump.json', {
          ring: 'packed',
          size: 1,
          desc: '',
          driver: '',
          device: '',
        });
        await refused(2, '--step is for traces', dump, '--step', '0');
      });
    });

    it('files that cannot be read', async () => {
      await refused(1, 'nowhere.json: cannot be read: there is no such file', 'nowhere.json');
      await refused(1, 'it is a folder', GOLDEN);
      await inFolder(async (folder) => {
        const text = await readFile(golden('packed_direct_ooo'), 'utf8');
        const cut = await save(folder, 'cut.json', new TextEncoder().encode(text.slice(0, 1000)));
        await refused(1, /cut\.json: not JSON \(.*\); for a memory image give --ring/, cut);
        await refused(
          1,
          'not JSON; for a memory image',
          await save(folder, 'x', new Uint8Array([0xff, 0xfe])),
        );
        await refused(1, 'not JSON', await save(folder, 'empty', new Uint8Array(0)));
      });
    });

    it('files that are something else', () =>
      inFolder(async (folder) => {
        for (const what of [1, null, [], {}, { ring: 'split' }, { name: 'x', version: '1.0.0' }])
          await refused(1, 'neither a saved queue', await save(folder, 'x.json', what));
        const dump = {
          ring: 'packed',
          size: 1,
          desc: '00'.repeat(16),
          driver: '00000000',
          device: '00000000',
        };
        const cases: [Record<string, unknown>, string][] = [
          [{ ring: 'round' }, 'ring must be "split" or "packed", got "round"'],
          [{ size: 0 }, 'size must be an integer from 1 to 32768, got 0'],
          [{ size: '1' }, 'size must be an integer'],
          [{ desc: '00'.repeat(15) }, 'desc has 15 bytes, in a packed ring of 1 it has 16'],
          [{ desc: '0'.repeat(31) }, 'desc must be a string of hex bytes'],
          [{ driver: 'xx' }, 'driver must be a string of hex bytes, got "xx"'],
          [{ device: undefined }, 'device is missing'],
          [{ steps: [] }, 'steps must be an array that is not empty'],
          [{ steps: [1] }, 'steps\\[0\\] must be an object, got 1'],
          [{ ring: 'split', size: 3 }, 'the size of a split queue must be a power of two'],
        ];
        for (const [change, message] of cases)
          await refused(1, `x.json: ${message}`, await save(folder, 'x.json', { ...dump, ...change }));
      }));

    it('a memory image that does not hold the ring', () =>
      inFolder(async (folder) => {
        const image = await save(folder, 'image', new Uint8Array(300));
        const at = (descriptor: number, driver: number, device: number, size = 8) => [
          ...['-r', 'split', '-s', `${size}`, '--descriptor', `${descriptor}`],
          ...['--driver', `${driver}`, '--device', `${device}`],
        ];
        await refused(1, 'areas.device: 70 bytes at 256', image, ...at(0, 128, 256));
        await refused(1, 'areas.descriptor must be a multiple of 16', image, ...at(8, 150, 200));
        await refused(1, 'areas overlap', image, ...at(0, 120, 200));
        await refused(1, 'power of two', image, ...at(0, 128, 160, 7));
        await refused(1, 'areas.device', image, ...at(0, 128, Number.MAX_SAFE_INTEGER - 3));
      }));

    it('a saved queue that was tampered with', () =>
      inFolder(async (folder) => {
        const { driver, device, image } = await scene('split');
        const state = driver.save();
        const cases: [object, string][] = [
          [{ ...state, version: 2 }, 'version must be 1'],
          [{ ...state, size: 16 }, 'areas overlap'],
          [{ ...state, free: [0, ...state.free.slice(1)] }, 'free 0 appears twice'],
          [{ ...state, areas: { ...state.areas, driver: 2 ** 40 } }, 'areas.driver'],
          [{ ...state, tables: { address: 16, length: 16 } }, 'behind the table memory'],
          [{ ...device.save(), fills: [{ offset: 8, id: 0, written: 0, slots: 1 }] }, 'fills\\[0\\].offset'],
          [{ ...device.save(), side: 'driver' }, 'x.json: '],
        ];
        for (const [what, message] of cases) await refused(1, message, await save(folder, 'x.json', what));
        const short = await save(folder, 'image', image.subarray(0, 100));
        await refused(1, 'outside the memory', await save(folder, 'x.json', state), '--memory', short);
      }));

    it('any change of a saved queue or a dump, or shows it', async () => {
      const { driver, device, image } = await scene('packed');
      const trace = JSON.parse(readFileSync(golden('split_indirect_ooo'), 'utf8'));
      const files = [driver.save(), device.save(), { ...trace, ...trace.steps[0], steps: undefined }];
      const values = fc.oneof(
        fc.integer({ min: -2, max: 70000 }),
        fc.constantFrom(null, true, '', 'ff', [], {}, 2 ** 32, 2 ** 53, 1e300, 0.5, 'split', 'packed'),
      );
      fc.assert(
        fc.property(
          fc.constantFrom(...files),
          fc.array(fc.nat(), { maxLength: 4 }),
          values,
          (file, path, value) => {
            const changed = structuredClone(file) as Record<string, unknown>;
            let at: Record<string, unknown> = changed;
            for (const [i, n] of path.entries()) {
              const keys = Object.keys(at);
              const key = keys[n % Math.max(1, keys.length)];
              const next = at[key];
              if (i === path.length - 1 || typeof next !== 'object' || next === null) {
                at[key] = value;
                break;
              }
              at = next as Record<string, unknown>;
            }
            try {
              if ('side' in changed) {
                print(inspectSaved(changed, image), true);
                print(inspectSaved(changed, undefined), true);
              } else print(dumpOfJson(changed, undefined), true);
            } catch (error) {
              if (![VringError, Failure, UsageError].some((known) => error instanceof known)) throw error;
            }
          },
        ),
        { numRuns: 1000 },
      );
    });
  });
});
